"""A data set: fetched once, verified by checksum, kept in the cache; and what fetches it."""

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
"""The file that an image has beside a data set's own: what it is, as JSON."""
CONNECT_LIMIT, READ_LIMIT, LIMIT = 5.0, 30.0, 1200.0
"""Seconds for a download: until a server answers, between two of its bytes, and in total."""


class NotAvailable(Exception):
    """A source does not have the data; the text has why."""


def kept() -> Path:
    """Where the verified data sets are kept."""
    return cache_dir() / "datasets"


@dataclass(frozen=True)
class Source:
    """A place to get the whole data set from."""

    name: str
    """As a message names it."""
    fetch: Callable[[Path, Context], None]
    """Puts every file into the directory that it is given, and shows its progress; raises
    `NotAvailable`, or `InterruptedError`."""
    at_hand: Callable[[], bool] = lambda: False
    """Whether it is surely there, on this machine, where the user has put it."""


@dataclass(frozen=True)
class Dataset:
    """Files that are known by their checksums, and where to get them."""

    name: str
    """What these pictures truly are; their directory's name, too."""
    classes: Sequence[str]
    """The names of the labels 0, 1, …."""
    files: Mapping[str, str]
    """The checksum of each file, `sha256:…` or `md5:…`, by its path in the data set."""
    sources: Sequence[Source]
    """In the order in which they are tried."""
    size: str
    """As a message has it."""
    stand_in: "Dataset | None" = None
    """What takes its place, read the same way, on machines that can't get it."""
    advice: str = ""
    """How the user gets this one there."""

    @classmethod
    def from_catalog(cls, name: str, sources: Sequence[Source], **more: Any) -> "Dataset":
        """Return the data set of that name in datasets.yaml, with where to get it."""
        listed = read(Path(__file__).with_name("datasets.yaml"))
        return cls(name, sources=sources, **listed[name], **more)

    @property
    def directory(self) -> Path:
        return kept() / self.name

    @property
    def fingerprint(self) -> str:
        """Stands for the content of all files, `DESCRIPTION` included."""
        listed = (f"{path}={checksum}" for path, checksum in sorted(self.files.items()))
        return ",".join((self.name, *self.classes, *listed))

    @property
    def alternatives(self) -> Sequence["Dataset"]:
        """All that `provide` may return, the best one first."""
        return (self,) if self.stand_in is None else (self, self.stand_in)

    def taken(self) -> "Dataset | None":
        """Return which alternative an image gets; None while nothing has been fetched."""
        at_hand = (each for each in self.alternatives if each.is_at_hand())
        return next(at_hand, self if self.stand_in is None else None)

    def is_at_hand(self) -> bool:
        """Whether it can be had without asking another machine."""
        return self.directory.is_dir() or any(source.at_hand() for source in self.sources)

    def provide(self, reporter: Context) -> "Dataset":
        """Return the one that is at hand, else the best that can be fetched, after saying which.

        No other takes the place of one at hand that is damaged and can't be fetched again. Raises
        `NotAvailable` with the reason of each, `TimeoutError`, or `InterruptedError`.
        """
        taken, problems = self.taken(), []
        for each in self.alternatives if taken is None else (taken,):
            try:
                each.ensure(reporter)
            except NotAvailable as error:
                problems.append(str(error))
                continue
            if each is not self:
                stands_in = f"data set {self.name}: {each.name} stands in. {self.advice}"
                reporter.info("\n".join([stands_in, *problems]))
            return each
        raise NotAvailable("\n".join([*problems, self.advice]).rstrip())

    def ensure(self, reporter: Context) -> None:
        """Fetch the files of this very one unless they are there and right; raises as `provide`."""
        with files.locked(
            kept() / f"{self.name}.lock",
            cancelled=reporter.cancelled,
            waiting=lambda holder: reporter.status(f"{self.name} is being fetched by {holder}"),
        ):
            if self.problem(self.directory) is not None:
                self._fetch(reporter)

    def problem(self, directory: Path) -> str | None:
        """Say which file in `directory` is missing or has another content, None when none."""
        for name, checksum in self.files.items():
            path, (algorithm, _, expected) = directory / name, checksum.partition(":")
            if not path.is_file():
                return f"{name} is missing"
            if (found := _digest(path, algorithm)) != expected:
                return f"{name} has the {algorithm} {found}, expected is {expected}"
        return None

    def copy_to(self, directory: Path) -> None:
        """Copy the files, and a description of them, with the md5 that torchvision verifies."""
        sums = {}
        for name in self.files:
            source, target = self.directory / name, directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            sums[name] = _digest(source, "md5")
        about = {"name": self.name, "classes": list(self.classes), "md5": sums}
        (directory / DESCRIPTION).write_text(json.dumps(about, indent=2) + "\n")

    def _fetch(self, reporter: Context) -> None:
        """Let each source fill a new directory; one that is right takes the old one's place."""
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
            f"Make one of these reachable, or put its files into {self.directory} yourself: "
            f"{', '.join(self.files)}"
        )


def download(url: str, target: Path, reporter: Context) -> None:
    """Write what `url` has to a file; raises `NotAvailable`, also after `LIMIT`, or as `Source`."""
    import requests  # noqa: PLC0415 (whatever knows of data sets would load it)

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
            # "Name or service not known", not a connection pool's story.
            cause = cause.__context__
        raise NotAvailable(f"{url}: {cause}") from error


def unpack(packed: Path, directory: Path, members: Mapping[str, str]) -> None:
    """Take `members`, names by their paths afterwards, out of a tar; raises `NotAvailable`."""
    try:
        with tarfile.open(packed) as tar:
            for name, inside in members.items():
                member, target = tar.extractfile(inside), directory / name
                if member is None:
                    raise NotAvailable(f"{packed} has no file {inside}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(member.read())
    except FileNotFoundError:
        raise NotAvailable(f"{packed} is missing") from None
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{packed} can't be unpacked: {error}") from error


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
