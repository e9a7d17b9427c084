"""The files of a run that were fetched: each is checked, and none of yours is overwritten."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from scripts.cli import CommandError

LIST = "artifacts.json"
"""Lists all files of a replica (`slipway_trainer.agent.artifacts`)."""


@dataclass(frozen=True)
class Received:
    """What became of a run's files, each by its path below the run's folder.

    Those that are `unchecked` came without a checksum to compare with: the run's image has no
    agent. Those that are `changed` are not what the run left, by their sha256, and not written.
    """

    written: Sequence[str]
    present: Sequence[str]
    unchecked: Sequence[str]
    changed: Sequence[str]
    missing: Sequence[str]
    bytes: int


def receive(fetched: IO[bytes], to: Path, known: Mapping[str, Mapping[str, Any]]) -> Received:
    """Write the files of a tar, with the lists of what else it should have, below `to`.

    `known` are the files that the run's result names, with their `sha256`; there may be more.

    Raises:
        CommandError: a file of yours differs from one of the run's, or a name leads out of `to`;
            nothing was written.
        tarfile.ReadError: it is no complete tar.
    """
    expected = {name: str(each["sha256"]) for name, each in known.items()}
    with tarfile.open(fileobj=fetched, mode="r:") as tar:
        # Each is a plain file, so it has a content.
        files = {_inner(each): cast("BufferedReader", tar.extractfile(each)) for each in tar}
        sums = {name: file_digest(file, "sha256").hexdigest() for name, file in files.items()}
        for name in [each for each in files if PurePosixPath(each).name == LIST]:
            if expected.setdefault(name, sums[name]) == sums[name]:
                expected |= _listed(files[name], name)
        right = [name for name in files if expected.get(name, sums[name]) == sums[name]]
        yours = {name: _digest(to / name) for name in right if (to / name).exists()}
        if others := [str(to / name) for name in sorted(yours) if yours[name] != sums[name]]:
            listed = "".join(f"\n  {path}" for path in others)
            raise CommandError(
                f"These files are not those that the run left, and nothing was written:{listed}\n"
                "Move them away, or name another directory: TO=DIRECTORY."
            )
        new = [name for name in right if name not in yours]
        size = sum(_put(files[name], to / name) for name in new)
    return Received(
        written=[name for name in new if name in expected],
        present=list(yours),
        unchecked=[name for name in new if name not in expected],
        changed=[name for name in files if name not in right],
        missing=sorted(expected.keys() - files.keys()),
        bytes=size,
    )


def _inner(member: tarfile.TarInfo) -> str:
    path = PurePosixPath(member.name)
    if not member.isfile() or path.is_absolute() or ".." in path.parts:
        raise CommandError(f"{member.name!r} is no file below the run's folder; nothing is written")
    return str(path)


def _listed(file: BufferedReader, name: str) -> dict[str, str]:
    """Return the sha256 of each file in a list, by its path; `name` is the list's own."""
    file.seek(0)
    folder = PurePosixPath(name).parent
    return {str(folder / each): entry["sha256"] for each, entry in json.load(file).items()}


def _put(source: BufferedReader, path: Path) -> int:
    """Write a file under its name once all of it is on the disk; return its size."""
    source.seek(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            shutil.copyfileobj(source, file)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return path.stat().st_size


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
