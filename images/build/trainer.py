"""The images that Slipway builds: what goes into each, and the hash that names it."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from core import tokens
from core.context import Context
from core.paths import CHECKOUT
from images.build import debian, pip
from images.build.engines import Engine, Plan
from images.build.runner import Runner
from images.build.spec import DIGITS, BuildSpec, digest_of, files_of
from images.datasets import DATASETS
from images.datasets.dataset import Dataset
from images.targets.target import repository

DOCKERFILE = "Dockerfile"


@dataclass(frozen=True)
class ImageSpec(BuildSpec):
    """An image to build out of a folder of this checkout.

    `context` has a Dockerfile and the files that it copies. Python packages that its
    `requirements.lock` lists are put beside them as `site-packages`.
    """

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    """They are put into the context as `data/<name>`."""
    dockerfile: str = DOCKERFILE
    """With another name than `Dockerfile` the image is a variant, which may have packages besides:
    those that `requirements.cuda.lock` lists are put beside a `Dockerfile.cuda` as
    `site-packages.cuda`. Other variants' files are not in its context."""
    type: ClassVar[str] = tokens.IMAGE
    estimate: str = "about 3 minutes at first, 30 s when only its own files have changed, and 2 GB"

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "ImageSpec":
        """Return what the resource with these inputs is made of."""
        datasets = {name: DATASETS[name] for name in inputs["datasets"]}
        name, dockerfile = inputs["name"], inputs.get("dockerfile", DOCKERFILE)
        estimate = next((each.estimate for each in IMAGES if each.name == name), cls.estimate)
        return cls(name, Path(inputs["context"]), datasets, dockerfile, estimate)

    @property
    def inputs(self) -> dict[str, Any]:
        more = {"dockerfile": self.dockerfile, "datasets": sorted(self.datasets)}
        return {**super().inputs, **more}

    @cached_property
    def content_hash(self) -> str:
        digest = hashlib.sha256(debian.PUBLISHED.encode())
        digest.update(digest_of(self.context, self._others))
        for name, dataset in sorted(self.datasets.items()):
            may_be = ";".join(each.fingerprint for each in dataset.alternatives)
            digest.update(f"\0{name}\0{may_be}".encode())
        return digest.hexdigest()

    @property
    def is_settled(self) -> bool:
        """Whether it is known which data sets are in it, where one of several may be."""
        return all(dataset.taken() is not None for dataset in self.datasets.values())

    def settle(self, reporter: Context) -> None:
        """Fetch what decides which data sets are in it; raises as `Dataset.provide`."""
        for dataset in self.datasets.values():
            if dataset.taken() is None:
                dataset.provide(reporter)

    @property
    def version(self) -> str:
        """Digits that change with anything that goes into the image, once it is settled."""
        digest = hashlib.sha256(self.content_hash.encode())
        for name, dataset in sorted(self.datasets.items()):
            taken = dataset.taken()
            if taken is None:
                raise RuntimeError(f"{self.name}: `make up` has yet to fetch its data set {name}")
            digest.update(f"\0{name}\0{taken.fingerprint}".encode())
        return digest.hexdigest()[:DIGITS]

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Fetch the data sets and packages, see to the base image, and copy all into one folder."""
        datasets = {name: each.provide(runner.reporter) for name, each in self.datasets.items()}
        arguments = (f"BASE={debian.base_image(engine, runner, work)}",)
        context = work / "context"
        for variant in self._variants:
            lock = self.context / f"requirements{variant}.lock"
            if lock.is_file():
                pip.install(lock, context / f"site-packages{variant}", runner)
        for path in files_of(self.context, self._others):
            target = context / path.relative_to(self.context)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for name, taken in datasets.items():
            taken.copy_to(context / "data" / name)
        _let_everybody_read(context)
        return Plan(context, context / self.dockerfile, arguments)

    @property
    def _variants(self) -> tuple[str, ...]:
        """Itself and what it is a variant of, by what their files have in their names."""
        return tuple(dict.fromkeys(("", self.dockerfile.removeprefix(DOCKERFILE))))

    @property
    def _others(self) -> frozenset[str]:
        """The files that are of other images out of the same directory."""
        patterns = (f"{DOCKERFILE}*", "requirements*.lock")
        all_of_them = {path.name for each in patterns for path in self.context.glob(each)}
        ours = {self.dockerfile, *(f"requirements{each}.lock" for each in self._variants)}
        return frozenset(all_of_them - ours)


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
    estimate="about 10 minutes at first, and 16 GB",
)
MLFLOW = ImageSpec(
    name="slipway-mlflow",
    context=CHECKOUT / "images" / "tracking",
    dockerfile="Dockerfile.mlflow",
    estimate="about 1 minute at first, and 500 MB",
)
POSTGRES = replace(
    MLFLOW,
    name="slipway-postgres",
    dockerfile="Dockerfile.postgres",
)
IMAGES = (TRAINER, TRAINER_CIFAR, TRAINER_CUDA, MLFLOW, POSTGRES)


def trainer_of(reference: str | None) -> ImageSpec | None:
    """Return which of them is called that where it is built, of whatever content; None if none."""
    known = {f"localhost/{each.name}": each for each in (TRAINER, TRAINER_CIFAR, TRAINER_CUDA)}
    return None if reference is None else known.get(repository(reference))


def _let_everybody_read(directory: Path) -> None:
    """Make all of it readable, whatever the umask: the image runs as another user."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
