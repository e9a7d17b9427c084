"""A data set: fetched once, verified by checksum, kept in the cache; or one of several."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core import files
from core.context import Context
from images.datasets.source import NotAvailable, Source, kept

DESCRIPTION = "DATASET"
"""The file that an image has beside a data set's own: what it is, as JSON."""


@dataclass(frozen=True)
class Dataset:
    """Files that are known by their checksums, and where to get them.

    Args:
        name: What these pictures truly are; their directory's name, too.
        classes: The names of the labels 0, 1, ….
        files: The checksum of each file, `sha256:…` or `md5:…`, by its path in the data set.
        sources: In the order in which they are tried.
        size: For the message that says what will be fetched.
    """

    name: str
    classes: Sequence[str]
    files: Mapping[str, str]
    sources: Sequence[Source]
    size: str

    @property
    def directory(self) -> Path:
        """Where the verified files are kept."""
        return kept() / self.name

    def is_at_hand(self) -> bool:
        """Whether it can be had without asking another machine."""
        return self.directory.is_dir() or any(source.at_hand() for source in self.sources)

    @property
    def fingerprint(self) -> str:
        """Stands for the content of all files, `DESCRIPTION` included."""
        listed = (f"{path}={checksum}" for path, checksum in sorted(self.files.items()))
        return ",".join((self.name, *self.classes, *listed))

    def ensure(self, reporter: Context) -> None:
        """Fetch the files unless they are there and right.

        Raises:
            NotAvailable: no source had them; with what was the matter with each.
            InterruptedError: the user stopped the program.
            TimeoutError: another process has been fetching them for too long.
        """
        with files.locked(
            kept() / f"{self.name}.lock",
            cancelled=reporter.cancelled,
            waiting=lambda: reporter.status(f"another process is fetching {self.name}"),
        ):
            if self.problem(self.directory) is not None:
                self._fetch_from_any(reporter)

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
        """Copy the files, and write what they are beside them.

        The description has the `name`, the `classes` and each file's `md5`, which is what
        torchvision verifies files by.
        """
        sums = {}
        for name in self.files:
            source, target = self.directory / name, directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            sums[name] = _digest(source, "md5")
        about = {"name": self.name, "classes": list(self.classes), "md5": sums}
        (directory / DESCRIPTION).write_text(json.dumps(about, indent=2) + "\n")

    def _fetch_from_any(self, reporter: Context) -> None:
        problems = []
        for source in self.sources:
            reporter.status(f"data set {self.name}: fetching {self.size} from {source.name}")
            try:
                self._fetch(source, reporter)
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

    def _fetch(self, source: Source, reporter: Context) -> None:
        """Let `source` fill a new directory, which takes the place of the old one once verified."""
        with tempfile.TemporaryDirectory(dir=kept(), prefix=".fetch-") as name:
            fetched = Path(name) / self.name
            fetched.mkdir()
            source.fetch(fetched, reporter)
            if (problem := self.problem(fetched)) is not None:
                raise NotAvailable(problem)
            shutil.rmtree(self.directory, ignore_errors=True)
            fetched.rename(self.directory)


@dataclass(frozen=True)
class Choice:
    """Data sets that are read the same way, or the only one of its kind.

    Args:
        name: What a program asks for.
        alternatives: The best one first.
        advice: How the user gets the best one where it can't be fetched.
    """

    name: str
    alternatives: Sequence[Dataset]
    advice: str = ""

    @property
    def fingerprint(self) -> str:
        """Stands for all that it may be."""
        return ";".join(each.fingerprint for each in self.alternatives)

    def taken(self) -> Dataset | None:
        """The only one, or the best that is at hand; None when nothing has been fetched yet."""
        only = self.alternatives[0] if len(self.alternatives) == 1 else None
        return next((each for each in self.alternatives if each.is_at_hand()), only)

    def ensure(self, reporter: Context) -> Dataset:
        """Return the one that is at hand, else the best that can be fetched, after saying which.

        One that is at hand but damaged, and can't be fetched again, is an error: another content
        must not take its place unasked.

        Raises:
            NotAvailable: none could be fetched; with what was the matter with each.
            InterruptedError: the user stopped the program.
            TimeoutError: another process has been fetching for too long.
        """
        problems: list[str] = []
        taken = self.taken()
        if taken is not None:
            taken.ensure(reporter)
        else:
            taken = self._fetch_best(reporter, problems)
        if taken is not self.alternatives[0]:
            why = "".join(f"\n{problem}" for problem in problems)
            reporter.info(f"data set {self.name}: {taken.name} stands in. {self.advice}{why}")
        return taken

    def _fetch_best(self, reporter: Context, problems: list[str]) -> Dataset:
        """Return the first alternative that can be fetched; `problems` takes why others can't."""
        for each in self.alternatives:
            try:
                each.ensure(reporter)
            except NotAvailable as error:
                problems.append(str(error))
            else:
                return each
        raise NotAvailable("\n".join([*problems, self.advice]))


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
