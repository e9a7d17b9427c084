"""What the tests of images share."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.context import Context, Silence
from images.datasets.dataset import Dataset, NotAvailable, Source


@dataclass
class Listener(Silence):
    """A reporter that remembers what it was told."""

    urn: str = "urn:image"
    lines: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def status(self, message: str) -> None:
        self.shown.append(message)

    def info(self, message: str) -> None:
        self.lines.append(message)

    warn = info


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


STAND_IN = dataset("stand-in", b"another", Source("a package", writing({"file": b"another"})))
REAL = replace(
    dataset("real", b"the real one", Source("its home", unreachable)),
    stand_in=STAND_IN,
    advice="For the real one do this",
)
