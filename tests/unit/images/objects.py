"""What the tests of images share."""

import hashlib
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.context import Context
from images.build.engines import Command, Engine
from images.datasets.dataset import Dataset, NotAvailable, Source


@dataclass
class Listener:
    """A reporter that remembers what it was told."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    lines: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    urn: str = "urn:image"

    def status(self, message: str) -> None:
        self.shown.append(message)

    def info(self, message: str) -> None:
        self.lines.append(message)

    def warn(self, message: str) -> None:
        self.lines.append(message)


class Holding(Engine):
    """An engine that has every image."""

    def __init__(self) -> None:
        super().__init__("docker", ())

    def digest(self, reference: str) -> Command:
        return (sys.executable, "-c", f"print({reference!r})")


def writing(files: Mapping[str, bytes]) -> Callable[[Path, Context], None]:
    """Return a source's `fetch` that has these files."""

    def fetch(directory: Path, _reporter: Context) -> None:
        for name, content in files.items():
            (directory / name).write_bytes(content)

    return fetch


def unreachable(_directory: Path, _reporter: Context) -> None:
    """A source's `fetch` that can't be reached."""
    raise NotAvailable("Name or service not known")


def dataset(name: str, content: bytes, *sources: Source) -> Dataset:
    """Return a data set of one file."""
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Dataset(name, ("a", "b"), {"file": checksum}, sources, "1 kB")
