"""A data set: fetched once, verified by checksum, kept in the cache."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.exclusive import exclusively
from images.steps import Reporter
from infra.paths import cache_dir


class NotAvailable(Exception):
    """A source could not give the data; the text says why."""


@dataclass(frozen=True)
class Source:
    """A place to get the whole data set from.

    Args:
        name: As a message names it.
        fetch: Puts every file into the directory that it is given; raises `NotAvailable`.
    """

    name: str
    fetch: Callable[[Path], None]


@dataclass(frozen=True)
class Dataset:
    """Files that are known by their checksums, and where to get them.

    Args:
        name: Its key in `images.datasets.DATASETS`, too.
        files: The sha256 of each file, by its path in the data set.
        sources: In the order in which they are tried.
        size: For the message that says what will be fetched.
    """

    name: str
    files: Mapping[str, str]
    sources: Sequence[Source]
    size: str

    @property
    def directory(self) -> Path:
        """Where the verified files are kept."""
        return cache_dir() / "datasets" / self.name

    @property
    def fingerprint(self) -> str:
        """Stands for the content of all files."""
        return ",".join(f"{path}={digest}" for path, digest in sorted(self.files.items()))

    def ensure(self, reporter: Reporter) -> Path:
        """Fetch the files unless they are there and right; return where they are.

        Raises:
            NotAvailable: no source had them; with what was the matter with each.
            images.exclusive.Cancelled: the person asked to stop.
            TimeoutError: another process has been fetching them for too long.
        """
        with exclusively(
            self.directory.with_suffix(".lock"),
            cancelled=reporter.cancelled,
            waiting=lambda: reporter.status(f"another process is fetching {self.name}"),
        ):
            if self.problem(self.directory) is not None:
                self._fetch_from_any(reporter)
        return self.directory

    def problem(self, directory: Path) -> str | None:
        """Say which file in `directory` is missing or has another content, None when none."""
        for name, expected in self.files.items():
            path = directory / name
            if not path.is_file():
                return f"{name} is missing"
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                return f"{name} has the sha256 {found}, expected is {expected}"
        return None

    def copy_to(self, directory: Path) -> None:
        """Copy the files, readable by every user."""
        for name in self.files:
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.directory / name, target)
            target.chmod(0o644)

    def _fetch_from_any(self, reporter: Reporter) -> None:
        problems = []
        for source in self.sources:
            reporter.status(f"data set {self.name}: fetching {self.size} from {source.name}")
            try:
                self._fetch(source)
            except NotAvailable as error:
                problems.append(f"{source.name}: {error}")
            else:
                reporter.info(f"data set {self.name}: fetched from {source.name} and verified")
                return
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise NotAvailable(
            f"data set {self.name} could not be fetched:{listed}\n"
            f"Make one of these reachable, or put its files into {self.directory} yourself: "
            f"{', '.join(self.files)}"
        )

    def _fetch(self, source: Source) -> None:
        """Let `source` fill a new directory, which takes the place of the old one once verified."""
        with tempfile.TemporaryDirectory(dir=self.directory.parent, prefix=".fetch-") as name:
            fetched = Path(name) / self.name
            fetched.mkdir()
            source.fetch(fetched)
            if (problem := self.problem(fetched)) is not None:
                raise NotAvailable(problem)
            shutil.rmtree(self.directory, ignore_errors=True)
            fetched.rename(self.directory)
