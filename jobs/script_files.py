"""Reads a job's own script: a file or a folder."""

from collections.abc import Iterator
from pathlib import Path

from core.paths import CHECKOUT
from core.problem import Problem
from core.quantities import gibibytes
from core.text import choices, quote
from jobs.script import Script
from jobs.spec import TrainingJob
from jobs.spec.program import DEFAULT_ENTRY

LIMIT = 2**20
"""Bytes: https://kubernetes.io/docs/concepts/configuration/configmap/#motivation"""

_OWN = frozenset(
    {"clusters", "core", "docs", "images", "infra", "jobs", "scripts", "stacks", "tests"}
)
"""Folders at the checkout's top that are Slipway's: nobody means them."""


def read(job: TrainingJob, key: str, checkout: Path = CHECKOUT) -> Script | Problem:
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
        # As the person would write them, beside what is not there.
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
    # Before they are read: somebody may have named a folder with data in it.
    if (total := sum(each.stat().st_size for each in files.values())) > 64 * LIMIT:
        text = (
            f"{quote(job.script)} holds {gibibytes(total)}; keep data in a volume, or use `build`"
        )
        return Problem(f"{key}.script", text)
    return Script(job.name, entry, {name: each.read_bytes() for name, each in files.items()})


def _near(folder: Path, checkout: Path) -> list[str]:
    """Return the names in `folder` that may be meant by a script that is not there."""
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
