"""The images that Slipway builds: what goes into each, and the hash that names it."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from images.datasets import DATASETS, Dataset
from infra.paths import CHECKOUT, cache_dir

BASE = "docker.io/library/debian:trixie-slim"
"""What every Dockerfile here starts from. Where it can't be pulled, `images.base` makes it."""


@dataclass(frozen=True)
class ImageSpec:
    """An image to build.

    Args:
        name: Its repository's name.
        context: A directory with a Dockerfile and the files that it copies.
        datasets: Data sets that are put into the context as `data/<name>`.
    """

    name: str
    context: Path
    datasets: Mapping[str, Dataset] = field(default_factory=dict)

    @cached_property
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with anything that goes into the image.

        Raises:
            FileNotFoundError: there is no Dockerfile in the context.
        """
        if not (self.context / "Dockerfile").is_file():
            raise FileNotFoundError(f"{self.context} has no Dockerfile")
        digest = hashlib.sha256(BASE.encode())
        for path in self._files():
            mode = "x" if path.stat().st_mode & 0o100 else "-"
            digest.update(f"\0{path.relative_to(self.context)}\0{mode}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        for name, dataset in sorted(self.datasets.items()):
            digest.update(f"\0{name}\0{dataset.fingerprint}".encode())
        return digest.hexdigest()

    @property
    def reference(self) -> str:
        """What a pod calls the image."""
        return f"localhost/{self.name}:{self.content_hash[:12]}"

    @property
    def archive(self) -> Path:
        """Where the built image lies."""
        return cache_dir() / "images" / f"{self.name}-{self.content_hash[:12]}.tar"

    def stage(self, directory: Path) -> None:
        """Copy everything that the build needs into `directory`; the data sets must be there."""
        for path in self._files():
            target = directory / path.relative_to(self.context)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            # Whatever umask the checkout was made with: the image runs as another user.
            target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        for name, dataset in self.datasets.items():
            dataset.copy_to(directory / "data" / name)

    def _files(self) -> Iterator[Path]:
        for path in sorted(self.context.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


TRAINER = ImageSpec(
    name="slipway-trainer",
    context=CHECKOUT / "images" / "trainer",
    datasets={"mnist": DATASETS["mnist"]},
)
