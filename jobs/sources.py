"""What a job's program is made of: the files of its script or build, and the image that it runs."""

import os
from collections.abc import Iterator
from pathlib import Path

from pulumi import Input

from clusters.cluster import Cluster
from core.fields import gibibytes
from core.paths import CHECKOUT
from core.problem import Problem, choices, quote
from images.build.job import JobImageSpec
from images.resource import JobImage, Trainer, TrainerImages
from jobs.adapt import wants_gpus
from jobs.spec import Script, TrainingJob
from jobs.spec.program import DEFAULT_ENTRY

LIMIT = 2**20
"""Bytes: https://kubernetes.io/docs/concepts/configuration/configmap/#motivation"""

_OWN = frozenset(
    {"clusters", "core", "docs", "images", "infra", "jobs", "scripts", "stacks", "tests"}
)
"""Folders at the checkout's top that are Slipway's, and never meant."""

_PROGRAMS = (".py", ".sh")
_LONGEST = 2**20
"""Bytes: a longer file was not written by hand."""


def read_script(job: TrainingJob, key: str, checkout: Path = CHECKOUT) -> Script | Problem:
    """Return the script of a job that has one, or what is wrong with it.

    Hidden files and Python's caches are left out.

    Args:
        job: Whose `script`, relative to the checkout, or absolute.
        key: Where the job stands in the configuration.
        checkout: What the path is relative to.
    """
    path = checkout / str(job.script)
    try:
        found = _file(job, path, key) if path.is_file() else _folder(job, path, key, checkout)
    except OSError as error:
        return Problem(f"{key}.script", f"{quote(job.script)} can't be read: {error}")
    if isinstance(found, Script) and found.size > LIMIT:
        largest = max(found.files, key=lambda name: len(found.files[name]))
        return Problem(
            f"{key}.script",
            f"{quote(job.script)} has {found.size:,} bytes, and a ConfigMap holds {LIMIT:,}; the "
            f"largest of its {len(found.files)} files is {largest}. Take out what the program does "
            "not need, keep data in a volume, or use `build`",
        )
    return found


def _file(job: TrainingJob, path: Path, key: str) -> Script | Problem:
    if job.script_entry is not None:
        text = f"goes with a folder, and {quote(job.script)} is a file; leave it out"
        return Problem(f"{key}.scriptEntry", text)
    if path.suffix != ".py":
        text = f"{quote(job.script)} is no Python file (.py); for other programs use `build`"
        return Problem(f"{key}.script", text)
    return Script(job.name, path.name, {path.name: path.read_bytes()})


def _folder(job: TrainingJob, path: Path, key: str, checkout: Path) -> Script | Problem:
    if not path.is_dir():
        # As the user would write them, beside the missing one.
        beside = Path(str(job.script)).parent
        near = [str(beside / name) for name in _near(path.parent, checkout)]
        text = f"{quote(job.script)} is neither a file nor a folder: there is no {path}"
        return Problem(
            f"{key}.script", f"{text}; {choices(str(job.script), near)}" if near else text
        )
    files = {str(each.relative_to(path)): each for each in _files(path)}
    entry = DEFAULT_ENTRY if job.script_entry is None else job.script_entry
    if entry not in files or not entry.endswith(".py"):
        programs = [name for name in files if name.endswith(".py")]
        text = f"{quote(entry)} is no Python file in the folder {quote(job.script)}"
        return Problem(f"{key}.scriptEntry", f"{text}; {choices(entry, programs)}")
    # Before they are read: the folder may be one with data in it.
    if (total := sum(each.stat().st_size for each in files.values())) > 64 * LIMIT:
        text = (
            f"{quote(job.script)} holds {gibibytes(total)}; keep data in a volume, or use `build`"
        )
        return Problem(f"{key}.script", text)
    return Script(job.name, entry, {name: each.read_bytes() for name, each in files.items()})


def _near(folder: Path, checkout: Path) -> list[str]:
    """Return the names in `folder` that may be meant by a missing script."""
    if not folder.is_dir():
        return []
    own = _OWN if folder.resolve() == checkout.resolve() else frozenset()
    return [
        each.name
        for each in folder.iterdir()
        if (each.is_dir() or each.suffix == ".py") and not each.name.startswith((".", "__"))
        if each.name not in own
    ]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if path.is_file() and not hidden:
            yield path


def image_spec(job: TrainingJob) -> JobImageSpec | None:
    """Return the image that a job with a `build` brings."""
    if job.build is None:
        return None
    return JobImageSpec(job.name, CHECKOUT / job.build.context, job.build.dockerfile)


def read_build(image: JobImageSpec) -> dict[str, str]:
    """Return a context's programs and its Dockerfile, the latter without comments, by path.

    Hidden files and Python's caches are left out, and so are files that can't be read, which the
    build reports.
    """
    texts = {}
    for path in _programs(image.context):
        try:
            if path.stat().st_size <= _LONGEST:
                texts[str(path.relative_to(image.context))] = path.read_text(errors="replace")
        except OSError:
            continue
    lines = (image.context / image.dockerfile).read_text(errors="replace").splitlines()
    instructions = [line for line in lines if not line.lstrip().startswith("#")]
    return {**texts, image.dockerfile: "\n".join(instructions)}


def _programs(context: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(context):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        for name in sorted(names):
            if name.endswith(_PROGRAMS) and not name.startswith("."):
                yield Path(folder) / name


def declare_images(
    job: TrainingJob, script: Script | None, cluster: Cluster, images: TrainerImages
) -> tuple[Input[str], Input[str]]:
    """Return the image that a job's pods run, and the one that fetches its inputs.

    No image is declared that the job does not need; the second is empty without inputs. A job that
    gets GPUs has the trainer's image with CUDA.
    """
    own = image_spec(job)

    def trainer() -> Trainer:
        has_gpus = cluster.gpus is not None and wants_gpus(job)
        return images.for_job(gpus=has_gpus, cifar=_uses_cifar10(job, script, own))

    brings_own = own is not None or job.image is not None
    fetcher = (images.cpu if brings_own else trainer()).reference if job.inputs else ""
    if job.image is not None:
        return job.image, fetcher
    if own is None:
        return trainer().reference, fetcher
    starts_from_trainer = not own.problems() and own.wants_trainer
    built = JobImage(
        own,
        target=cluster.image_target,
        trainer=trainer().base if starts_from_trainer else "",
    )
    return built.pinned, fetcher


def _uses_cifar10(job: TrainingJob, script: Script | None, own: JobImageSpec | None) -> bool:
    """Return whether `cifar` stands in a job's declaration or in one of its files.

    torchvision's class, the trainer's module and the folder /data/cifar10 are all called so.
    """
    texts = [str(job), *({} if script is None else script.files).values()]
    if own is not None:
        texts += read_build(own).values()
    return any("cifar" in str(text).lower() for text in texts)
