"""What an image is built from, and the digest that stands for its files."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from core.paths import cache_dir
from images.build.engines import Engine, Plan
from images.build.runner import Reporter, Runner

LEFT_OUT = frozenset({".git", "__pycache__"})
"""Their content changes when the files that count do not."""


def files_of(directory: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield every file and every link below `directory`, in a fixed order.

    Args:
        directory: Which.
        without: Names of files right in it that are left out.
    """
    for name, folders, files in os.walk(directory):
        here = Path(name)
        links = [folder for folder in folders if (here / folder).is_symlink()]
        folders[:] = sorted(set(folders) - LEFT_OUT)
        skipped = without if here == directory else ()
        yield from (here / file for file in sorted([*files, *links]) if file not in skipped)


def digest_of(directory: Path, without: Collection[str] = ()) -> bytes:
    """Return 32 bytes that stand for each file's place, content, and whether it can be run."""
    digest = hashlib.sha256()
    for path in files_of(directory, without):
        digest.update(f"{path.relative_to(directory)}\0".encode())
        if path.is_symlink():
            # It is copied as a link; what it leads to counts where that lies.
            digest.update(f"link\0{path.readlink()}\0".encode())
            continue
        if not path.is_file():
            # A pipe or a socket: it has no content, and reading a pipe would wait for a writer.
            continue
        digest.update(b"x" if path.stat().st_mode & 0o100 else b"-")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


@dataclass(frozen=True)
class Spec(ABC):
    """What is in an image, and its name, which follows from that.

    Args:
        name: Without what the repositories of all such images begin with.
        context: Where its own files are.
    """

    name: str
    context: Path
    prefix: ClassVar[str] = ""

    @property
    def repository(self) -> str:
        """Its repository's name."""
        return f"{self.prefix}{self.name}"

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with anything that the image is declared with."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The image's tag, which changes with anything that goes into it."""

    @property
    def reference(self) -> str:
        """What the image is called where it is built."""
        return f"localhost/{self.repository}:{self.version}"

    @property
    def is_settled(self) -> bool:
        """Whether `version` is known already."""
        return True

    def settle(self, reporter: Reporter) -> None:  # noqa: B027  # most have nothing to settle
        """Fetch what decides `version`; raises what that takes."""


class BuildSpec(Spec):
    """An image that an engine builds."""

    @property
    @abstractmethod
    def estimate(self) -> str:
        """A description of the time and space that its build takes."""

    @property
    def archive(self) -> Path:
        """The file of the built image."""
        return cache_dir() / "images" / f"{self.repository}-{self.version}.tar"

    @abstractmethod
    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Fetch everything that the build needs into the directory `work`.

        Raises:
            images.build.runner.BuildFailed: a step failed.
        """
