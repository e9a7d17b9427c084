"""Reads the texts in the folder of a job's `build` by which its program can be judged."""

import os
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = (".py", ".sh")
_LONGEST = 2**20
"""Bytes: what is longer was written by no person."""


def read(context: Path, dockerfile: str) -> dict[str, str]:
    """Return a context's programs and its Dockerfile, the latter without comments, by path.

    Hidden files and Python's caches are left out, and so is what can't be read: the build tells.
    """
    texts = {}
    for path in _programs(context):
        try:
            if path.stat().st_size <= _LONGEST:
                texts[str(path.relative_to(context))] = path.read_text(errors="replace")
        except OSError:
            continue
    lines = (context / dockerfile).read_text(errors="replace").splitlines()
    told = [line for line in lines if not line.lstrip().startswith("#")]
    return {**texts, dockerfile: "\n".join(told)}


def _programs(context: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(context):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        for name in sorted(names):
            if name.endswith(_PROGRAMS) and not name.startswith("."):
                yield Path(folder) / name
