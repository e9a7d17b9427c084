"""An image's specification: its sources, the digest of its files, and its archive."""

import hashlib
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from core import files
from core.context import Context
from core.paths import cache_dir
from images.build import debian, engines, uses
from images.build.engines import Engine, Plan, answer
from images.build.runner import HOLDING, BuildFailed, Runner

DIGITS = 12
"""The number of hash digits in a version."""
_REMOVE_LIMIT = 60.0
LEFT_OUT = frozenset({".git", "__pycache__"})
"""Names of folders that are left out, so changes in them do not change the image."""


def files_of(directory: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield all files and links below `directory`, in a fixed order.

    Folders in `LEFT_OUT` are skipped, as are files in `directory` itself with names in `without`.
    """
    for name, folders, plain in os.walk(directory):
        here = Path(name)
        links = [folder for folder in folders if (here / folder).is_symlink()]
        folders[:] = sorted(set(folders) - LEFT_OUT)
        skipped = without if here == directory else ()
        yield from (here / file for file in sorted([*plain, *links]) if file not in skipped)


def digest_of(directory: Path, without: Collection[str] = ()) -> bytes:
    """Return a SHA-256 digest (32 bytes) over all files' paths, content and executable bits."""
    digest = hashlib.sha256()
    for path in files_of(directory, without):
        digest.update(os.fsencode(f"{path.relative_to(directory)}\0"))
        if path.is_symlink():
            # It is copied as a link, so its target's content does not count here.
            digest.update(os.fsencode(f"link\0{path.readlink()}\0"))
        elif path.is_file():
            # Reading a pipe would block.
            digest.update(b"x" if path.stat().st_mode & 0o100 else b"-")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def others(path: Path) -> list[Path]:
    """Return files that differ from `path`, `<name>-<digits>.<suffix>`, only in their digits.

    Files for images that a resource still uses are left out.
    """
    name, _, _ = path.stem.rpartition("-")
    # Not `<name>-*`, which may match another image's name.
    same = re.compile(rf"{re.escape(name)}-[0-9a-f]+{re.escape(path.suffix)}")
    alike = [each for each in path.parent.iterdir() if same.fullmatch(each.name) and each != path]
    return [each for each in alike if not uses.place(each.stem).exists()]


@dataclass(frozen=True)
class Spec(ABC):
    """The content of an image, and the image's reference, which depends on the content."""

    name: str
    """The image's name, without the repository's `prefix`."""
    context: Path
    """The directory that contains the image's own files."""
    prefix: ClassVar[str] = ""
    type: ClassVar[str]
    """The Pulumi type token of the resource that delivers the image to a cluster."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The resource's inputs, without `target`."""
        return {"name": self.name, "context": str(self.context), "contentHash": self.content_hash}

    @property
    def repository(self) -> str:
        return f"{self.prefix}{self.name}"

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """Hash of everything that goes into the image's declaration, as 64 hexadecimal digits."""

    @property
    def version(self) -> str:
        """The image's tag, which changes with its content."""
        return self.content_hash[:DIGITS]

    @property
    def reference(self) -> str:
        """The image's local reference."""
        return f"localhost/{self.repository}:{self.version}"

    @property
    def archives(self) -> tuple[str, ...]:
        """Names, without `.tar`, of archives that stay cached while a resource uses the image."""
        return ()

    @property
    def is_settled(self) -> bool:
        """True if `version` is already known."""
        return True

    def settle(self, reporter: Context) -> None:  # noqa: B027  # most have nothing to settle
        """Fetch the sources that determine `version`; raises the same exceptions as `build`."""

    @abstractmethod
    def build(self, reporter: Context) -> Path:
        """Return the image's archive, in `docker save` format; build it unless it is cached."""


class BuildSpec(Spec):
    """An image that an engine builds."""

    estimate: str
    """Time and disk space for the first build, as messages show them."""

    @property
    def expected(self) -> str:
        """Time and disk space for a build, for messages: the last build's, or else `estimate`."""
        return self._took.read_text() if self._took.is_file() else self.estimate

    @property
    def _took(self) -> Path:
        return cache_dir() / "images" / f"{self.repository}.took"

    @property
    def archive(self) -> Path:
        return cache_dir() / "images" / f"{self.repository}-{self.version}.tar"

    @property
    def archives(self) -> tuple[str, ...]:
        return (self.archive.stem,)

    @abstractmethod
    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Fetch the build's inputs to the directory `work`; raises the same errors as `build`."""

    def explained(self, failure: BuildFailed, log: Path) -> BuildFailed:
        """Return the error to raise for a failed build; its output is in `log`."""
        return failure

    def build(self, reporter: Context) -> Path:
        """Return the image's archive; build it unless it is in the cache.

        Raises `BuildFailed` with the log's tail, `NotAvailable` if a data set can't be fetched,
        `InterruptedError`, `ToolMissing`, or `TimeoutError` if another build does not finish.
        """
        self.settle(reporter)
        if not self.archive.exists():
            with workplace(self.repository, reporter) as (engine, runner, work):
                # Another build may have created it since.
                if not self.archive.exists():
                    self._build(engine, runner, work)
        return self.archive

    def _build(self, engine: Engine, runner: Runner, work: Path) -> None:
        began = time.monotonic()
        what = f"building {self.reference} with {engine.name}"
        runner.reporter.info(f"{what}: {self.expected} in {self.archive.parent}")
        plan = self.prepare(engine, runner, work)
        plan = replace(plan, arguments=(*plan.arguments, *debian.proxies()))
        finished = work / "image.tar"
        try:
            runner.run(f"building {self.repository}", engine.build(plan, self.reference))
        except BuildFailed as failure:
            raise self.explained(failure, runner.log) from None
        runner.run(f"writing {self.repository}", engine.save(self.reference, finished))
        os.sync()  # after a power loss, the cached archive would otherwise be incomplete
        finished.replace(self.archive)
        self._forget_others(engine)
        took, size = time.monotonic() - began, self.archive.stat().st_size / 1e6
        self._took.write_text(f"the last build took {took:.0f} s and {size:.0f} MB")
        runner.reporter.info(f"built {self.reference} in {took:.0f} s, {size:.0f} MB")

    def _forget_others(self, engine: Engine) -> None:
        """Remove other versions of this image, and images that no resource uses any more."""
        for archive in others(self.archive):
            archive.unlink()
        unused = uses.remove_unused(but=self.archive.stem)
        for name in (answer(*engine.names()) or "").split():
            image = name.removeprefix("localhost/").replace(":", "-")
            is_other = name.startswith(f"localhost/{self.repository}:") and name != self.reference
            if image in unused or (is_other and not uses.place(image).exists()):
                answer(*engine.remove(name), limit=_REMOVE_LIMIT)
        for command in engine.prune():
            answer(*command, limit=_REMOVE_LIMIT)


@contextmanager
def workplace(name: str, reporter: Context) -> Iterator[tuple[Engine, Runner, Path]]:
    """Take the lock for builds and pushes; yield the engine, the runner and an empty directory.

    Files that a killed build or push left in the directory, such as credentials, are removed.
    """
    images = cache_dir() / "images"
    with files.locked(
        images / "lock",
        limit=HOLDING,
        what=name,
        cancelled=reporter.cancelled,
        waiting=lambda holder: reporter.status(f"waiting for another build or push: {holder}"),
    ):
        work = images / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            variables = {"TMPDIR": str(work), **debian.proxies()}
            runner = Runner(cache_dir() / "logs" / f"image-{name}.log", reporter, variables)
            yield engines.choose(images / "storage", work), runner, work
        finally:
            shutil.rmtree(work, ignore_errors=True)
