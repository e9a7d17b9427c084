"""Data sets, each fetched once, verified by checksum and kept in the cache; and their sources."""

import hashlib
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import files
from core.context import Context
from core.manifests import read
from core.paths import cache_dir

DESCRIPTION = "DATASET"
"""The name of the file, in an image, that describes a data set as JSON."""
CONNECT_LIMIT, READ_LIMIT, LIMIT = 5.0, 30.0, 1200.0
"""Time limits for a download, in seconds: to connect, between two reads, and in total."""


class NotAvailable(Exception):
    """A source does not have the data; the message gives the reason."""


def kept() -> Path:
    """Return the directory for verified data sets."""
    return cache_dir() / "datasets"


@dataclass(frozen=True)
class Source:
    """A source that provides a complete data set."""

    name: str
    """Its name in messages."""
    fetch: Callable[[Path, Context], None]
    """Writes all files to the directory passed to it, and reports progress; raises `NotAvailable`
    or `InterruptedError`."""
    at_hand: Callable[[], bool] = lambda: False
    """Returns whether the user has put the files on this machine."""


@dataclass(frozen=True)
class Dataset:
    """Files with known checksums, and their sources."""

    name: str
    """The real name of these images, and of their directory."""
    classes: Sequence[str]
    """The class names for labels 0, 1, …."""
    files: Mapping[str, str]
    """The checksum of each file, `sha256:…` or `md5:…`, by its path in the data set."""
    sources: Sequence[Source]
    """The sources, in the order in which they are tried."""
    size: str
    """Its size, for messages."""
    stand_in: "Dataset | None" = None
    """The data set in the same format that replaces this one on machines that can't get it."""
    advice: str = ""
    """Instructions for users who want to provide the data set itself."""

    @classmethod
    def from_catalog(cls, name: str, sources: Sequence[Source], **more: Any) -> "Dataset":
        """Return the data set with that name in datasets.yaml, with its sources."""
        listed = read(Path(__file__).with_name("datasets.yaml"))
        return cls(name, sources=sources, **listed[name], **more)

    @property
    def directory(self) -> Path:
        return kept() / self.name

    @property
    def fingerprint(self) -> str:
        """A text that identifies the content of all files, including `DESCRIPTION`."""
        listed = (f"{path}={checksum}" for path, checksum in sorted(self.files.items()))
        return ",".join((self.name, *self.classes, *listed))

    @property
    def alternatives(self) -> Sequence["Dataset"]:
        """The data sets that `provide` may return, best first."""
        return (self,) if self.stand_in is None else (self, self.stand_in)

    def taken(self) -> "Dataset | None":
        """Return the alternative that an image gets, or None until one has been fetched."""
        at_hand = (each for each in self.alternatives if each.is_at_hand())
        return next(at_hand, self if self.stand_in is None else None)

    def is_at_hand(self) -> bool:
        """Return whether it is available on this machine."""
        return self.directory.is_dir() or any(source.at_hand() for source in self.sources)

    def provide(self, reporter: Context) -> "Dataset":
        """Return the local alternative, or else the best one that can be fetched, and report it.

        If the local one is damaged and can't be fetched again, no other alternative replaces it.
        Raises `NotAvailable` with the reason for each, `TimeoutError`, or `InterruptedError`.
        """
        taken, problems = self.taken(), []
        for each in self.alternatives if taken is None else (taken,):
            try:
                each.ensure(reporter)
            except NotAvailable as error:
                problems.append(str(error))
                continue
            if each is not self:
                stands_in = f"data set {self.name}: using {each.name} instead. {self.advice}"
                reporter.info("\n".join([stands_in, *problems]))
            return each
        raise NotAvailable("\n".join([*problems, self.advice]).rstrip())

    def ensure(self, reporter: Context) -> None:
        """Fetch this alternative's files unless they are valid; raises like `provide`."""
        with files.locked(
            kept() / f"{self.name}.lock",
            cancelled=reporter.cancelled,
            waiting=lambda holder: reporter.status(f"{self.name} is being fetched by {holder}"),
        ):
            if self.problem(self.directory) is not None:
                self._fetch(reporter)

    def problem(self, directory: Path) -> str | None:
        """Describe the first missing or wrong file in `directory`; return None if all are valid."""
        for name, checksum in self.files.items():
            path, (algorithm, _, expected) = directory / name, checksum.partition(":")
            if not path.is_file():
                return f"{name} is missing"
            if (actual := _digest(path, algorithm)) != expected:
                return f"{name} has {algorithm} {actual}, but {expected} is expected"
        return None

    def copy_to(self, directory: Path) -> None:
        """Copy the files and a description, which contains the MD5 sums that torchvision checks."""
        sums = {}
        for name in self.files:
            source, target = self.directory / name, directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            sums[name] = _digest(source, "md5")
        about = {"name": self.name, "classes": list(self.classes), "md5": sums}
        (directory / DESCRIPTION).write_text(json.dumps(about, indent=2) + "\n")

    def _fetch(self, reporter: Context) -> None:
        """Fetch to a new directory from one source after another, and keep the first valid one."""
        problems = ""
        for source in self.sources:
            reporter.status(f"data set {self.name}: fetching {self.size} from {source.name}")
            with tempfile.TemporaryDirectory(dir=kept(), prefix=".fetch-") as name:
                fetched = Path(name) / self.name
                fetched.mkdir()
                try:
                    source.fetch(fetched, reporter)
                    problem = self.problem(fetched)
                except NotAvailable as error:
                    problem = str(error)
                if problem is None:
                    shutil.rmtree(self.directory, ignore_errors=True)
                    fetched.rename(self.directory)
                    reporter.info(f"data set {self.name}: fetched from {source.name} and verified")
                    return
            problems += f"\n  {source.name}: {problem}"
        raise NotAvailable(
            f"data set {self.name} could not be fetched:{problems}\n"
            f"Make one of these reachable, or put the files into {self.directory} yourself: "
            f"{', '.join(self.files)}"
        )


def download(url: str, target: Path, reporter: Context) -> None:
    """Download `url`; raises `NotAvailable`, including after `LIMIT`, or `InterruptedError`."""
    import requests  # noqa: PLC0415 (other users of this module would load it)

    target.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        with (
            requests.get(url, timeout=(CONNECT_LIMIT, READ_LIMIT), stream=True) as response,
            target.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(1 << 20):
                file.write(chunk)
                reporter.status(f"{url}: {file.tell() // 10**7 * 10} MB")
                if reporter.cancelled.is_set():
                    raise InterruptedError(f"{url}: stopped")
                if time.monotonic() - began > LIMIT:
                    raise NotAvailable(f"{url} took longer than {LIMIT:.0f} s")
    except requests.RequestException as error:
        cause: BaseException = error
        while cause.__context__ is not None:
            # Such as "Name or service not known" instead of a connection pool error.
            cause = cause.__context__
        raise NotAvailable(f"{url}: {cause}") from error


def unpack(packed: Path, directory: Path, members: Mapping[str, str]) -> None:
    """Extract `members`, which maps target paths to names in a tar; raises `NotAvailable`."""
    try:
        with tarfile.open(packed) as tar:
            for name, inside in members.items():
                member, target = tar.extractfile(inside), directory / name
                if member is None:
                    raise NotAvailable(f"{packed} does not contain the file {inside}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(member.read())
    except FileNotFoundError:
        raise NotAvailable(f"{packed} is missing") from None
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{packed} can't be unpacked: {error}") from error


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
