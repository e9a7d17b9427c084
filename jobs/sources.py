"""The sources of a job's program: the files in its script or build, and its image."""

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pulumi import Input

from clusters.cluster import Cluster
from core.paths import project_dir
from core.problem import Problem, choices, meant, quote
from images.build.job import JobImageSpec, RequirementsSpec
from images.resource import TrainerImages
from jobs.adapt import wants_gpus
from jobs.model.job import TrainingJob
from jobs.model.program import DEFAULT_ENTRY
from jobs.model.volumes import Script

LIMIT = 2**20
"""Maximum bytes in a ConfigMap: https://kubernetes.io/docs/concepts/configuration/configmap/"""

_UTF8 = re.compile("[^\ud800-\udfff]+")
"""Matches a name that is valid UTF-8, as required for a path in a ConfigMap."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HARMLESS = {
    *("getLogger", "TypeVar", "namedtuple", "getenv", "get", "int", "float", "Path", "device")
}
"""Functions that a definitions-only module may call, since they do no real work."""
_MAIN = "/__main__.py"


def read_script(job: TrainingJob, key: str, folder: Path | None = None) -> Script | Problem:
    """Return a job's script, or the problem with it.

    The script's path is absolute or relative to `folder`, which is the project's folder by default.
    `key` is the job's key in the configuration.
    """
    path = (folder or project_dir()) / str(job.script)
    try:
        top, inside = (path, _files(path)) if path.is_dir() else (path.parent, iter((path,)))
        paths = dict(_named(each, top) for each in inside)
        files = {name: at for name, at in paths.items() if at.exists() and _UTF8.fullmatch(name)}
        wrong = _wrong(job, path, files)
        if wrong is None:
            contents = {name: files[name].read_bytes() for name in files}
            left_out = tuple(ascii(name) for name in paths if name not in files)
            # A single file is its own entry point.
            entry = "" if job.command else job.script_entry or _default_entry(contents)
            text = None if job.command else _wrong_entry(entry, contents)
            if text is None:
                return Script(job.origin, entry, contents, left_out)
            wrong = "script" if path.is_file() else "scriptEntry", text
    except OSError as error:
        wrong = "script", f"{quote(job.script)} can't be read: {error}"
    field, text = wrong
    return Problem(f"{key}.{field}", text)


def _wrong(job: TrainingJob, path: Path, files: Mapping[str, Path]) -> tuple[str, str] | None:
    """Return the field and problem that make a script unusable, or None if it is usable."""
    script = quote(job.script)
    if path.is_file():
        if job.script_entry is not None:
            return "scriptEntry", f"requires a folder, but {script} is a file; remove this key"
        if path.suffix != ".py":
            return "script", f"{script} is not a Python file (.py); for other programs use `build`"
    elif not path.is_dir():
        near = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        text = f"{script} is neither a file nor a folder: there is no {path}."
        return "script", f"{text}{meant(path.name, near)}"
    # Checked before the files are read, as the folder may contain data.
    sizes = {name: each.stat().st_size for name, each in files.items()}
    # Besides its content, each file takes space for its key, its path and their mapping.
    total = sum(sizes.values()) + sum(2 * len(name) + 64 for name in files)
    if total <= LIMIT:
        return None
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
    listed = ", ".join(f"{name} ({sizes[name]:,})" for name in largest)
    return "script", (
        f"{script} is {total:,} bytes, but a ConfigMap holds at most {LIMIT:,}; the largest of its "
        f"{len(files)} files: {listed}. Remove or hide (.name) what the program does not need; "
        "keep data in a volume or in the job's `data` (docs/data.md), or without a cluster in "
        "another folder; or use `build`, which accepts folders of any size (docs/own-job.md#build)"
    )


def _files(folder: Path, above: Collection[Path] = ()) -> Iterator[Path]:
    """Yield a folder's files, broken links and empty folders; none that is hidden or Python's own.

    Links are followed, unless they lead to a folder that contains them.
    """
    inside = {*above, folder.resolve()}
    for path in sorted(folder.iterdir(), key=lambda each: (each.is_dir(), each.name)):
        if path.name.startswith((".", "__pycache__")) or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            if path.resolve() not in inside:
                yield from [*_files(path, inside)] or [path]
        elif path.is_file() or not path.exists():
            yield path


def _named(path: Path, folder: Path) -> tuple[str, Path]:
    """Return a path relative to `folder`, and its file; an empty folder gets a placeholder file."""
    name = str(path.relative_to(folder))
    return (f"{name}/.gitkeep", Path(os.devnull)) if path.is_dir() else (name, path)


def _default_entry(files: Mapping[str, bytes]) -> str:
    """Return a folder's default entry point: train.py, or its only program."""
    top = [name for name in files if name.endswith(".py") and "/" not in name]
    only = [name for name in top if b"__main__" in files[name]] or top
    return only[0] if DEFAULT_ENTRY not in files and len(only) == 1 else DEFAULT_ENTRY


def _wrong_entry(entry: str, files: Mapping[str, bytes]) -> str | None:
    """Describe why `entry` can't be started, with alternatives; return None if it can."""
    programs = {name: files[name] for name in files if name.endswith(".py")}
    if entry not in programs:
        return f"{quote(entry)} is not a Python file in the folder; {_others(entry, programs)}"
    if not _only_defines(programs[entry]):
        return None
    more = f", or start something else: {_others(entry, programs)}" if len(programs) > 1 else ""
    return (
        f"{quote(entry)} defines functions or classes but calls none, so it would exit without "
        f'doing anything; end it with `if __name__ == "__main__": main()`{more}'
    )


def _only_defines(source: bytes) -> bool:
    """Return whether a module only defines functions or classes, and calls none of them."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it may be written for a newer Python
    others = [each for each in body if not isinstance(each, _DEFINITIONS)]
    calls = [n.func for each in others for n in ast.walk(each) if isinstance(n, ast.Call)]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return len(others) < len(body) and names <= _HARMLESS


def _others(entry: str, programs: Mapping[str, bytes]) -> str:
    """List alternatives to `entry`: packages, and files with a main guard or, failing that, all."""
    packages = [name.removesuffix(_MAIN).replace("/", ".") for name in programs if _MAIN in name]
    files = [name for name in programs if name != entry and _MAIN not in f"/{name}"]
    guarded = [name for name in files if b"__main__" in programs[name]]
    options = [choices(entry, guarded or files)] if guarded or not packages else []
    options += [f"set `command: [python, -m, {each}]` instead" for each in packages]
    return "; or ".join(options)


def image_spec(job: TrainingJob, base: str) -> JobImageSpec | None:
    """Return a job's own image: from `build`, or from `requirements` on top of the image `base`."""
    if job.requirements is not None:
        return RequirementsSpec.from_file(project_dir() / job.requirements, base)
    if job.build is None:
        return None
    return JobImageSpec(job.origin, project_dir() / job.build.context, job.build.dockerfile)


def read_build(image: JobImageSpec) -> dict[str, str]:
    """Return the programs in a build context, and the Dockerfile without comments, by path."""
    texts = {}
    for path in _files(image.context):
        with suppress(OSError):  # the build reports a file that can't be read
            # A larger file is unlikely to be written by hand.
            if path.suffix in {".py", ".sh"} and path.stat().st_size <= 2**20:
                texts[str(path.relative_to(image.context))] = path.read_text(errors="replace")
    lines = (image.context / image.dockerfile).read_text(errors="replace").splitlines()
    instructions = [line for line in lines if not line.lstrip().startswith("#")]
    return {**texts, image.dockerfile: "\n".join(instructions)}


def declare_images(
    job: TrainingJob, script: Script | None, cluster: Cluster, images: TrainerImages
) -> tuple[Input[str], Input[str]]:
    """Return the image for a job's pods, and the image that fetches its inputs.

    Only images that the job needs are declared. The second one is "" if the job fetches no files.
    A job with GPUs gets the trainer image with CUDA.
    """
    has_gpus = cluster.gpus is not None and wants_gpus(job)
    base = images.spec(job.torch, gpus=has_gpus, cifar=_uses_cifar10(job, script))
    own = image_spec(job, base.name)
    image: Input[str] | None = job.image if own is None else images.of_job(own, base)
    if image is None:
        image = images.provide(base).reference
    if not job.fetches:
        return image, ""
    is_trainers = job.requirements is not None or (own is None and job.image is None)
    return image, image if is_trainers else images.provide(images.spec()).reference


def _uses_cifar10(job: TrainingJob, script: Script | None) -> bool:
    """Return whether a job may use CIFAR-10: its declaration or a file contains `cifar`."""
    # The module `images` reads /data/cifar10 by default.
    if job.module == "images" and job.data is None:
        return True
    # The word is in the names of torchvision's class, the trainer's module and that folder.
    texts = [str(job), *({} if script is None else script.files).values()]
    if job.build is not None and (own := image_spec(job, "")) is not None:
        texts += read_build(own).values()
    return any("cifar" in str(text).lower() for text in texts)
