"""The images that Slipway builds: what goes into each, and the hash that names it."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from core.context import Context
from core.paths import CHECKOUT
from images.build import debian, pip
from images.build.engines import Engine, Plan
from images.build.runner import Runner
from images.build.spec import BuildSpec, digest_of, files_of
from images.datasets import DATASETS, Choice
from images.datasets.dataset import Dataset
from images.targets.target import repository

DOCKERFILE = "Dockerfile"
_DIGITS = 12


class Undecided(Exception):
    """What is in an image is not known before its data have been fetched."""


@dataclass(frozen=True)
class ImageSpec(BuildSpec):
    """An image to build out of a folder of this checkout.

    Args:
        name: Its repository's name.
        context: A directory with a Dockerfile and the files that it copies. Python packages that
            its `requirements.lock` lists are put beside them as `site-packages`.
        datasets: Data sets that are put into the context as `data/<name>`.
        dockerfile: Its name. With another than `Dockerfile` the image is a variant, which may
            have packages besides: those that `requirements.cuda.lock` lists are put beside a
            `Dockerfile.cuda` as `site-pip.cuda`. Other variants' files are not in its context.
        takes: A description of the time and space that its build takes.
    """

    datasets: Mapping[str, Choice] = field(default_factory=dict)
    dockerfile: str = DOCKERFILE
    type: ClassVar[str] = "slipway:images:Image"
    takes: str = "about 3 minutes at first, 30 s when only its own files have changed, and 2 GB"

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "ImageSpec":
        datasets = {name: DATASETS[name] for name in inputs["datasets"]}
        dockerfile = inputs.get("dockerfile", DOCKERFILE)
        return cls(inputs["name"], Path(inputs["context"]), datasets, dockerfile)

    @property
    def inputs(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "context": str(self.context),
            "dockerfile": self.dockerfile,
            "contentHash": self.content_hash,
            "datasets": sorted(self.datasets),
        }

    @cached_property
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with anything that the image is declared with.

        Raises:
            FileNotFoundError: the context has no Dockerfile.
        """
        if not (self.context / self.dockerfile).is_file():
            raise FileNotFoundError(f"{self.context} has no {self.dockerfile}")
        digest = hashlib.sha256(debian.PUBLISHED.encode())
        digest.update(digest_of(self.context, self._others))
        for name, dataset in sorted(self.datasets.items()):
            digest.update(f"\0{name}\0{dataset.fingerprint}".encode())
        return digest.hexdigest()

    @property
    def estimate(self) -> str:
        return self.takes

    @property
    def is_settled(self) -> bool:
        """Whether it is known which data sets are in it, where one of several may be."""
        return all(dataset.taken() is not None for dataset in self.datasets.values())

    def settle(self, reporter: Context) -> None:
        """Fetch what decides which data sets are in it, unless that is known.

        Raises:
            images.datasets.source.NotAvailable: none can be fetched.
            InterruptedError: the user stopped the program.
            TimeoutError: another process has been fetching them for too long.
        """
        for dataset in self.datasets.values():
            if dataset.taken() is None:
                dataset.ensure(reporter)

    @property
    def version(self) -> str:
        """Digits that change with anything that goes into the image. Raises `Undecided`."""
        digest = hashlib.sha256(self.content_hash.encode())
        for name, dataset in sorted(self._taken().items()):
            digest.update(f"\0{name}\0{dataset.fingerprint}".encode())
        return digest.hexdigest()[:_DIGITS]

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Fetch the data sets and packages, see to the base image, and copy all into one folder.

        Raises:
            images.build.runner.BuildFailed: a step failed.
            images.datasets.source.NotAvailable: a data set can't be fetched.
        """
        datasets = {
            name: dataset.ensure(runner.reporter) for name, dataset in self.datasets.items()
        }
        arguments = (f"BASE={debian.base_image(engine, runner, work)}",)
        context = work / "context"
        for lock in filter(Path.is_file, map(self.context.joinpath, self._locks)):
            pip.install(lock, context / pip.folder(lock), runner)
        self._copy_to(context)
        for name, taken in datasets.items():
            taken.copy_to(context / "data" / name)
        _let_everybody_read(context)
        return Plan(context, context / self.dockerfile, arguments)

    @property
    def _locks(self) -> tuple[str, ...]:
        variant = self.dockerfile.removeprefix(DOCKERFILE)
        return tuple(dict.fromkeys((pip.LOCK, pip.lock(variant))))

    @property
    def _others(self) -> frozenset[str]:
        """The files that are of other images out of the same directory."""
        patterns = (f"{DOCKERFILE}*", pip.lock("*"))
        all_of_them = {path.name for each in patterns for path in self.context.glob(each)}
        return frozenset(all_of_them - {self.dockerfile, *self._locks})

    def _copy_to(self, directory: Path) -> None:
        for path in files_of(self.context, self._others):
            target = directory / path.relative_to(self.context)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    def _taken(self) -> dict[str, Dataset]:
        taken = {name: dataset.taken() for name, dataset in self.datasets.items()}
        if missing := [name for name, dataset in taken.items() if dataset is None]:
            raise Undecided(
                f"{self.name}: which data stand for {', '.join(missing)} is not known before they "
                f"have been fetched; `make up` does that"
            )
        return {name: dataset for name, dataset in taken.items() if dataset is not None}


TRAINER = ImageSpec(
    name="slipway-trainer",
    context=CHECKOUT / "images" / "trainer",
    datasets={"mnist": DATASETS["mnist"]},
)
TRAINER_CIFAR = replace(TRAINER, name="slipway-trainer-cifar", datasets=DATASETS)
TRAINER_CUDA = replace(
    TRAINER_CIFAR,
    name="slipway-trainer-cuda",
    dockerfile="Dockerfile.cuda",
    takes="about 10 minutes at first, and 16 GB",
)


def trainer_of(reference: str) -> ImageSpec | None:
    """Return which of them is called that where it is built, of whatever content; None if none."""
    known = {f"localhost/{each.name}": each for each in (TRAINER, TRAINER_CIFAR, TRAINER_CUDA)}
    return known.get(repository(reference))


def _let_everybody_read(directory: Path) -> None:
    """Make all of it readable, whatever the umask: the image runs as another user."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
