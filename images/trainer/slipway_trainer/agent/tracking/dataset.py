"""What a run trains on, by name and sha256: as it was declared, or as it lies in the image."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import islice
from pathlib import Path
from typing import Any

_MOST_BYTES, _MOST_FILES = 2**30, 10_000
"""Of a directory whose checksum is calculated, which takes a second of the CPU for a GB."""


@dataclass(frozen=True)
class Dataset:
    """What a run trained on; the digest is a sha256, or empty where none is known."""

    name: str
    digest: str = ""
    source: str = ""


def declared(data: Any) -> Dataset | None:
    """Return a job's `data`, a map of `url` and `sha256`; None without one."""
    if not isinstance(data, Mapping) or "url" not in data:
        return None
    url = str(data["url"])
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return Dataset(name or url, str(data.get("sha256", "")), url)


def in_directory(started: Mapping[str, Any]) -> Dataset | None:
    """Return what lies in the directory `data` of a `started` event; None without one."""
    directory = Path(str(started.get("data")))
    if not directory.is_dir():
        return None
    try:
        about = directory / "DATASET"
        known = json.loads(about.read_text()) if about.is_file() else {}
        return Dataset(known.get("name", directory.name), _digest(directory), str(directory))
    except (OSError, ValueError):
        return None


def _digest(directory: Path) -> str:
    """Return the sha256 of the lines that `sha256sum` prints of the files, in their names' order.

    Empty for a directory that is too large for that.
    """
    found = list(islice(_files(directory), _MOST_FILES + 1))
    if len(found) > _MOST_FILES or sum(path.stat().st_size for path in found) > _MOST_BYTES:
        return ""
    lines = sha256()
    for name, path in sorted((path.relative_to(directory).as_posix(), path) for path in found):
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        lines.update(f"{digest}  {name}\n".encode())
    return lines.hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())
