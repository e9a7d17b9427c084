"""A job's own script: a file or a folder of this checkout becomes an immutable ConfigMap."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.manifests import Manifest
from infra.paths import CHECKOUT
from infra.quantities import gibibytes
from infra.validation import Problem
from infra.words import choices, quote
from jobs.spec import MANAGED_BY, TrainingJob
from jobs.spec.mounts import MountedScript
from jobs.spec.program import DEFAULT_ENTRY

LIMIT = 2**20
"""Bytes: https://kubernetes.io/docs/concepts/configuration/configmap/#motivation"""
_BYTES_PER_FILE = 64
"""What a file costs besides its content and its names."""
_LONGEST_KEY = 200


@dataclass(frozen=True)
class Script:
    """The files of a job's script.

    Args:
        job: The job's name.
        entry: The path, in `files`, of the one that is started.
        files: Their contents, by their path in the script's folder.
    """

    job: str
    entry: str
    files: Mapping[str, bytes]

    @property
    def mounted(self) -> MountedScript:
        """The script as the job's pods find it."""
        return MountedScript(self._name, self._items(), self.entry)

    @property
    def sources(self) -> dict[str, str]:
        """The Python files among them, by their path."""
        return {
            path: content.decode(errors="replace")
            for path, content in self.files.items()
            if path.endswith(".py")
        }

    def config_map(self, namespace: str) -> Manifest:
        """Return the ConfigMap; for another content it has another name, as it can't be changed."""
        data, binary = {}, {}
        for key, path in self._items().items():
            text = _text(self.files[path])
            if text is None:
                binary[key] = base64.b64encode(self.files[path]).decode()
            else:
                data[key] = text
        contents = {"data": data, "binaryData": binary}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "namespace": namespace, "labels": dict(MANAGED_BY)},
            "immutable": True,
            **{name: files for name, files in contents.items() if files},
        }

    @property
    def size(self) -> int:
        """What counts against `LIMIT`."""
        return sum(
            len(self.files[path]) + len(key) + len(path) + _BYTES_PER_FILE
            for key, path in self._items().items()
        )

    @property
    def _name(self) -> str:
        digest = hashlib.sha256(self.entry.encode())
        for path, content in sorted(self.files.items()):
            digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
        return f"{self.job}-script-{digest.hexdigest()[:10]}"

    def _items(self) -> dict[str, str]:
        """Return a key for each path: a ConfigMap's keys know no folders."""
        items: dict[str, str] = {}
        for path in sorted(self.files):
            plain = re.sub(r"[^-._a-zA-Z0-9]", "_", path)[-_LONGEST_KEY:]
            number = sum(key == plain or key.startswith(f"{plain}.") for key in items)
            items[f"{plain}.{number}" if plain in items else plain] = path
        return items


def read(job: TrainingJob, key: str, checkout: Path = CHECKOUT) -> Script | Problem:
    """Return the script of a job that has one, or what is wrong with it.

    Hidden files and Python's caches are left out.

    Args:
        job: Whose `script`, relative to the checkout.
        key: Where the job stands in the configuration.
        checkout: What the path is relative to.
    """
    path = checkout / str(job.script)
    try:
        found = _file(job, path, key) if path.is_file() else _folder(job, path, key)
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


def _folder(job: TrainingJob, path: Path, key: str) -> Script | Problem:
    if not path.is_dir():
        there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        near = [name for name in there if not name.startswith(".")]
        text = f"{quote(job.script)} is neither a file nor a folder: there is no {path}"
        return Problem(f"{key}.script", f"{text}; {choices(path.name, near)}" if near else text)
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


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if path.is_file() and not hidden:
            yield path


def _text(content: bytes) -> str | None:
    """Return text that reads in a preview; None for what has to travel as bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
