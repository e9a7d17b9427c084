"""What an image is built from, the digest that stands for its files, and its archive."""

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
"""Of a hash, in a version."""
_REMOVE_LIMIT = 60.0
LEFT_OUT = frozenset({".git", "__pycache__"})
"""Their content changes when the files that count do not."""


def files_of(directory: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield every file and link below `directory` in a fixed order, `without` some right in it."""
    for name, folders, plain in os.walk(directory):
        here = Path(name)
        links = [folder for folder in folders if (here / folder).is_symlink()]
        folders[:] = sorted(set(folders) - LEFT_OUT)
        skipped = without if here == directory else ()
        yield from (here / file for file in sorted([*plain, *links]) if file not in skipped)


def digest_of(directory: Path, without: Collection[str] = ()) -> bytes:
    """Return 32 bytes that stand for each file's place, content, and whether it can be run."""
    digest = hashlib.sha256()
    for path in files_of(directory, without):
        digest.update(f"{path.relative_to(directory)}\0".encode())
        if path.is_symlink():
            # It is copied as a link; what it leads to counts where that lies.
            digest.update(f"link\0{path.readlink()}\0".encode())
        elif path.is_file():
            # Not a pipe, whose reader would wait for a writer.
            digest.update(b"x" if path.stat().st_mode & 0o100 else b"-")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def others(path: Path) -> list[Path]:
    """Return what lies beside `<name>-<digits>.<suffix>` of other contents of the same name.

    That is without what goes when no resource uses it any more.
    """
    name, _, _ = path.stem.rpartition("-")
    # Not by `<name>-*`: that is how another image's name may go on.
    same = re.compile(rf"{re.escape(name)}-[0-9a-f]+{re.escape(path.suffix)}")
    found = [each for each in path.parent.iterdir() if same.fullmatch(each.name) and each != path]
    return [each for each in found if not uses.place(each.stem).exists()]


@dataclass(frozen=True)
class Spec(ABC):
    """What is in an image, and its name, which follows from that."""

    name: str
    """Without `prefix`, with which the repositories of all such images begin."""
    context: Path
    """The directory of its own files."""
    prefix: ClassVar[str] = ""
    type: ClassVar[str]
    """Of the resource that brings it into a cluster."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The resource's inputs, but for `target`."""
        names = {"name": self.name, "context": str(self.context)}
        return {**names, "contentHash": self.content_hash}

    @property
    def repository(self) -> str:
        return f"{self.prefix}{self.name}"

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with anything that the image is declared with."""

    @property
    def version(self) -> str:
        """The image's tag, which changes with anything that goes into it."""
        return self.content_hash[:DIGITS]

    @property
    def reference(self) -> str:
        """What the image is called where it is built."""
        return f"localhost/{self.repository}:{self.version}"

    @property
    def archives(self) -> tuple[str, ...]:
        """The files that stay in the cache while a resource uses the image, without `.tar`."""
        return ()

    @property
    def is_settled(self) -> bool:
        """Whether `version` is known already."""
        return True

    def settle(self, reporter: Context) -> None:  # noqa: B027  # most have nothing to settle
        """Fetch what decides `version`; raises what that takes."""

    @abstractmethod
    def build(self, reporter: Context) -> Path:
        """Return its archive, as `docker save` writes one; build it unless the cache has it."""


class BuildSpec(Spec):
    """An image that an engine builds."""

    estimate: str
    """A description of the time and space that its first build takes."""

    @property
    def expected(self) -> str:
        """What its build takes: what the last one of its name took, or else `estimate`."""
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
        """Fetch everything that the build needs into the directory `work`; raises as `build`."""

    def explained(self, failure: BuildFailed, log: Path) -> BuildFailed:
        """Return what is raised when a step of its Dockerfile fails, whose output is in `log`."""
        return failure

    def build(self, reporter: Context) -> Path:
        """Return its archive; build it unless it is in the cache.

        It raises `BuildFailed` with the end of the log, `NotAvailable` for a data set,
        `InterruptedError`, `ToolMissing`, or `TimeoutError` where another build did not end.
        """
        self.settle(reporter)
        if not self.archive.exists():
            with workplace(self.repository, reporter) as (engine, runner, work):
                # Another build may have been for the same content.
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
        finished.replace(self.archive)
        self._forget_others(engine)
        took, size = time.monotonic() - began, self.archive.stat().st_size / 1e6
        self._took.write_text(f"the last build took {took:.0f} s, {size:.0f} MB")
        runner.reporter.info(f"built {self.reference} in {took:.0f} s, {size:.0f} MB")

    def _forget_others(self, engine: Engine) -> None:
        """Remove the images and archives of other contents of the same name, and unused ones."""
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
    """Yield what one build or push at a time works with, until the end of the block.

    That is the engine, the runner of its commands, and an empty directory: what a killed build or
    push has left in it goes, a login included.
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
