"""The files of a run as they arrive: each is checked, and none of yours is overwritten."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any

from scripts.cli import CommandError

LIST = "artifacts.json"
"""Lists all files of a replica (`slipway_trainer.agent.artifacts`); it arrives before them."""
_CHUNK_BYTES = 1 << 20
_LONGEST_LIST = 1 << 26
"""Bytes: of some 300,000 files."""


@dataclass
class Received:
    """What became of a run's files, each by its path below the run's folder.

    Those that are `unchecked` arrived without a checksum to compare with: the run's image has no
    agent. Those that are `changed` are not what the run left, by their sha256, and not written.
    """

    written: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    bytes: int = 0


def receive(stream: IO[bytes], to: Path, known: Mapping[str, Mapping[str, Any]]) -> Received:
    """Write the files of a tar, which has a list before the files that it names, below `to`.

    `known` are the files that the run's result names, with their `sha256`; there may be more.

    Raises:
        CommandError: a file of yours differs from one of the run's, and nothing was written; or a
            name leads out of `to`.
        tarfile.ReadError: the stream ended early.
    """
    expected = {name: str(each["sha256"]) for name, each in known.items()}
    found, seen = Received(), set[str]()
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            name = _inner(member)
            seen.add(name)
            source = tar.extractfile(member)
            assert source is not None, f"{name} is a file"  # noqa: S101
            if PurePosixPath(name).name == LIST and member.size <= _LONGEST_LIST:
                content = source.read()
                if sha256(content).hexdigest() == expected.get(name, sha256(content).hexdigest()):
                    expected |= _listed(content, name)
                    _require_no_other(to, expected)
                    _put(iter([content]), to, name, None, found)
                else:
                    found.changed.append(name)
            else:
                _put(_chunks(source), to, name, expected.get(name), found)
    found.missing += sorted(expected.keys() - seen)
    return found


def _inner(member: tarfile.TarInfo) -> str:
    path = PurePosixPath(member.name)
    if not member.isfile() or path.is_absolute() or ".." in path.parts:
        raise CommandError(f"{member.name!r} is no file below the run's folder; nothing is written")
    return str(path)


def _listed(content: bytes, name: str) -> dict[str, str]:
    """Return the sha256 of each file in a list, by its path; `name` is the list's own."""
    folder = PurePosixPath(name).parent
    return {str(folder / each): entry["sha256"] for each, entry in json.loads(content).items()}


def _require_no_other(to: Path, expected: Mapping[str, str]) -> None:
    """Raise a CommandError with all files of yours that would be overwritten."""
    others = [
        str(to / name)
        for name, digest in sorted(expected.items())
        if (to / name).exists() and _digest(to / name) != digest
    ]
    if others:
        listed = "".join(f"\n  {path}" for path in others)
        raise CommandError(
            f"These files are not those that the run left, and nothing was written:{listed}\n"
            "Move them away, or name another directory: TO=DIRECTORY."
        )


def _put(chunks: Iterator[bytes], to: Path, name: str, digest: str | None, found: Received) -> None:
    """Write a file under its name once all of it has arrived and is what it has to be."""
    path = to / name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    arrived, size = sha256(), 0
    try:
        with part.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
                arrived.update(chunk)
                size += len(chunk)
        if digest is not None and arrived.hexdigest() != digest:
            found.changed.append(name)
        elif path.exists():
            if _digest(path) != arrived.hexdigest():
                raise CommandError(
                    f"{path} is not the file that the run left, and is not overwritten. Move it "
                    "away, or name another directory: TO=DIRECTORY."
                )
            found.present.append(name)
        else:
            part.rename(path)
            is_known = digest is not None or path.name == LIST
            (found.written if is_known else found.unchecked).append(name)
            found.bytes += size
    finally:
        part.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK_BYTES):
        yield chunk
