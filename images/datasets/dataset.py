"""Data sets and their sources. Each data set is fetched once, verified by checksum and cached."""

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
from core.process import CommandFailed

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
    """The source's name in messages."""
    fetch: Callable[[Path, Context], None]
    """Writes all files to the directory passed to it, and reports progress; raises `NotAvailable`,
    `CommandFailed` or `InterruptedError`."""
    at_hand: Callable[[], bool] = lambda: False
    """Returns whether the user has put the files on this machine."""


@dataclass(frozen=True)
class Dataset:
    """Files with known checksums, and their sources."""

    name: str
    """The data set's real name, even if it replaces another; also its directory's name."""
    classes: Sequence[str]
    """The class names for labels 0, 1, …."""
    files: Mapping[str, str]
    """The checksum of each file, `sha256:…` or `md5:…`, keyed by the path in the data set."""
    sources: Sequence[Source]
    """The sources, in the order in which they are tried."""
    size: str
    """The size of the download, as messages show it."""
    stand_in: "Dataset | None" = None
    """A data set in the same format, which replaces this one on machines that can't fetch it."""
    advice: str = ""
    """Advice for users who do not want the replacement: how to provide this data set manually."""

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
        """A string that identifies the content of all files, including `DESCRIPTION`."""
        listed = (f"{path}={checksum}" for path, checksum in sorted(self.files.items()))
        return ",".join((self.name, *self.classes, *listed))

    @property
    def alternatives(self) -> Sequence["Dataset"]:
        """The data sets that `provide` may return, best first."""
        return (self,) if self.stand_in is None else (self, self.stand_in)

    def taken(self) -> "Dataset | None":
        """Return the alternative for images, or None if it is known only after fetching."""
        at_hand = (each for each in self.alternatives if each.is_at_hand())
        return next(at_hand, self if self.stand_in is None else None)

    def is_at_hand(self) -> bool:
        """Return whether this data set is on this machine: in the cache, or put there by a user."""
        return self.directory.is_dir() or any(source.at_hand() for source in self.sources)

    def provide(self, reporter: Context) -> "Dataset":
        """Return the alternative on this machine, or else fetch the best one that is available.

        If the data set on this machine is damaged and can't be fetched again, no other replaces it.
        Raises `NotAvailable` with each source's problem, `TimeoutError`, or `InterruptedError`.
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
        """Fetch the files unless they are valid; raises the same exceptions as `provide`."""
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
            if (actual := digest(path, algorithm)) != expected:
                return f"the {algorithm} of {name} is {actual} instead of {expected}"
        return None

    def copy_to(self, directory: Path) -> None:
        """Copy the files, and describe them in `DESCRIPTION`, with MD5 sums for torchvision."""
        sums = {}
        for name in self.files:
            source, target = self.directory / name, directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            sums[name] = digest(source, "md5")
        about = {"name": self.name, "classes": list(self.classes), "md5": sums}
        (directory / DESCRIPTION).write_text(json.dumps(about, indent=2) + "\n")

    def _fetch(self, reporter: Context) -> None:
        """Try one source after another, and keep the first files whose checksums are correct."""
        problems = ""
        for source in self.sources:
            reporter.status(f"data set {self.name}: fetching {self.size} from {source.name}")
            with tempfile.TemporaryDirectory(dir=kept(), prefix=".fetch-") as name:
                fetched = Path(name) / self.name
                fetched.mkdir()
                try:
                    source.fetch(fetched, reporter)
                    problem = self.problem(fetched)
                except (NotAvailable, CommandFailed) as error:
                    problem = str(error)
                if problem is None:
                    shutil.rmtree(self.directory, ignore_errors=True)
                    fetched.rename(self.directory)
                    reporter.info(f"data set {self.name}: fetched from {source.name} and verified")
                    return
            problems += f"\n  {source.name}: {problem}"
        raise NotAvailable(
            f"data set {self.name} could not be fetched:{problems}\n"
            f"Make one of these sources reachable, or put the files in {self.directory} yourself: "
            f"{', '.join(self.files)}"
        )


def download(url: str, target: Path, reporter: Context) -> None:
    """Download `url`; raises `NotAvailable` if it fails or takes `LIMIT` s, `InterruptedError`."""
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
    """Extract files from a tar archive to `directory`; raises `NotAvailable`.

    `members` maps each file's path in `directory` to its name in the archive.
    """
    try:
        with tarfile.open(packed) as tar:
            for name, inside in members.items():
                member, target = tar.extractfile(inside), directory / name
                if member is None:
                    raise NotAvailable(f"{packed} does not contain the file {inside}")
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(member, file)
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{packed} can't be unpacked: {error}") from error


def digest(path: Path, algorithm: str) -> str:
    """Return a file's checksum, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
