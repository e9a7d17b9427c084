"""The images that Slipway builds: their content, and the hash that identifies it."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from core import tokens
from core.context import Context
from core.manifests import read
from core.paths import CHECKOUT
from images.build import debian, pip
from images.build.engines import Engine, Plan
from images.build.releases import PYTHONS, RELEASES, SNAPSHOTS, STABLE, chosen
from images.build.runner import Runner
from images.build.spec import DIGITS, BuildSpec, digest_of, files_of
from images.datasets import DATASETS
from images.datasets.dataset import Dataset
from images.targets.target import repository

DOCKERFILE = "Dockerfile"


@dataclass(frozen=True)
class ImageSpec(BuildSpec):
    """An image to build from a folder in this checkout.

    The Python packages in `requirements.lock` are added to the build context as `site-packages`.
    A variant with `Dockerfile.cuda` also gets the packages in `requirements.cuda.lock` or, for one
    version of torch, in a file such as `requirements.cuda-2.14.lock`, as `site-packages.cuda`.
    Files for other variants are left out.
    """

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    """Data sets that are added to the build context as `data/<name>`."""
    dockerfile: str = DOCKERFILE
    torch: str | None = None
    """The version of torch, a key in `RELEASES`, or None for an image without torch."""
    type: ClassVar[str] = tokens.IMAGE
    estimate: str = "takes about 3 minutes (30 s if only its own files changed), and 2 GB of disk"

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "ImageSpec":
        datasets = {name: DATASETS[name] for name in inputs["datasets"]}
        name, context = inputs["name"], Path(inputs["context"])
        dockerfile, torch = inputs.get("dockerfile", DOCKERFILE), inputs.get("torch")
        like = (each.estimate for each in IMAGES if each.dockerfile == dockerfile)
        return cls(name, context, datasets, dockerfile, torch, next(like, cls.estimate))

    @property
    def inputs(self) -> dict[str, Any]:
        more = {"dockerfile": self.dockerfile, "datasets": sorted(self.datasets)}
        return {**super().inputs, **more, **({"torch": self.torch} if self.torch else {})}

    @cached_property
    def content_hash(self) -> str:
        versions = (self._suite, *self._content, SNAPSHOTS.get(self._suite))
        digest = hashlib.sha256(repr(versions).encode())
        digest.update(digest_of(self.context, self._others))
        for name, dataset in sorted(self.datasets.items()):
            may_be = ";".join(each.fingerprint for each in dataset.alternatives)
            digest.update(f"\0{name}\0{may_be}".encode())
        return digest.hexdigest()

    @property
    def is_settled(self) -> bool:
        """True if it is known, for each data set, which alternative the image contains."""
        return all(dataset.taken() is not None for dataset in self.datasets.values())

    def settle(self, reporter: Context) -> None:
        """Fetch data sets, if this is needed to decide whether replacements must be used.

        Raises the same exceptions as `Dataset.provide`.
        """
        for dataset in self.datasets.values():
            if dataset.taken() is None:
                dataset.provide(reporter)

    @property
    def version(self) -> str:
        """The shortened content hash; raises `RuntimeError` if the image is not resolved yet."""
        digest = hashlib.sha256(self.content_hash.encode())
        for name, dataset in sorted(self.datasets.items()):
            if (taken := dataset.taken()) is None:
                raise RuntimeError(
                    f"{self.name}: data set {name} has not been fetched; run `make up`"
                )
            digest.update(f"\0{name}\0{taken.fingerprint}".encode())
        return digest.hexdigest()[:DIGITS]

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Fetch data sets, packages and the base image, and copy all files to one folder."""
        datasets = {name: each.provide(runner.reporter) for name, each in self.datasets.items()}
        arguments = [f"BASE={debian.base_image(engine, runner, work, self._suite)}"]
        if (pinned := debian.snapshot(self._suite)) is not None:
            arguments.append(f"SOURCES={pinned}")
        context = work / "context"
        for variant, lock in self._locks.items():
            packages = context / f"site-packages{variant}"
            pip.install(self.context / lock, packages, runner, PYTHONS[self._suite])
        for path in files_of(self.context, self._others):
            target = context / path.relative_to(self.context)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for name, taken in datasets.items():
            taken.copy_to(context / "data" / name)
        _make_readable(context)
        return Plan(context, context / self.dockerfile, (*arguments, *self._content))

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Versions of torch and torchvision, keyed by package, from a lock file or else Debian."""
        texts = "".join((self.context / lock).read_text() for lock in self._locks.values())
        locked = dict(re.findall(r"^(torch|torchvision)==(\S+)", texts, re.MULTILINE))
        return locked or (RELEASES[self.torch].debian if self.torch else {})

    @property
    def _suite(self) -> str:
        return STABLE if self.torch is None else RELEASES[self.torch].suite

    @property
    def _content(self) -> tuple[str, ...]:
        """The build arguments with the versions that the image must contain."""
        if self.torch is None:
            return ()
        release = RELEASES[self.torch]
        versions = (f"PYTHON={release.python}", f"TORCH={self.torch}")
        # Left out for CPUs, so that their jobs do not train again when a kind of GPU is added.
        has_gpus = self.dockerfile != DOCKERFILE
        return (*versions, f"KERNELS={' '.join(release.architectures)}") if has_gpus else versions

    @cached_property
    def _locks(self) -> dict[str, str]:
        """The image's lock files, including those for all variants, keyed by variant suffix."""
        variants = dict.fromkeys(("", self.dockerfile.removeprefix(DOCKERFILE)))
        ends = ("", f"-{self.torch}")
        named = [(each, f"requirements{each}{end}.lock") for each in variants for end in ends]
        return {variant: lock for variant, lock in named if (self.context / lock).is_file()}

    @property
    def _others(self) -> frozenset[str]:
        """The Dockerfiles and lock files in the same directory that belong to other images."""
        patterns = (f"{DOCKERFILE}*", "requirements*.lock")
        all_of_them = {path.name for each in patterns for path in self.context.glob(each)}
        return frozenset(all_of_them - {self.dockerfile, *self._locks.values()})


IMAGES = tuple(
    ImageSpec(
        name,
        CHECKOUT / "images" / of["folder"],
        {each: DATASETS[each] for each in of.get("datasets", ())},
        of.get("dockerfile", DOCKERFILE),
        chosen(None, gpus=of["gpus"]).torch if "gpus" in of else None,
        of.get("estimate", ImageSpec.estimate),
    )
    for name, of in read(Path(__file__).with_suffix(".yaml")).items()
)
TRAINER, TRAINER_CIFAR, TRAINER_CUDA, MLFLOW, POSTGRES = IMAGES


def trainer(torch: str | None = None, *, gpus: bool = False, cifar: bool = False) -> ImageSpec:
    """Return the trainer image for a version of torch, with or without GPUs and CIFAR-10.

    CIFAR-10 is in a separate image, so that a change to it does not make other jobs train again.
    """
    default = TRAINER_CUDA if gpus else TRAINER_CIFAR if cifar else TRAINER
    if torch in {None, default.torch}:
        return default
    return replace(default, name=f"{default.name}-{torch}", torch=torch)


def trainer_of(reference: str | None) -> ImageSpec | None:
    """Return the trainer image that a local reference names, with any tag, or None."""
    kinds = ((False, False), (False, True), (True, True))
    every = (trainer(torch, gpus=gpus, cifar=cifar) for torch in RELEASES for gpus, cifar in kinds)
    images = {f"localhost/{each.name}": each for each in every}
    return None if reference is None else images.get(repository(reference))


def _make_readable(directory: Path) -> None:
    """Make all files readable despite the umask, since the image runs as another user."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
