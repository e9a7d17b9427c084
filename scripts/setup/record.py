"""Read and write toolchain.json, which lists the tools that setup provided.

A tool is not checked again if its size, modification time and requirements match its entry.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core import files, toolchain
from scripts.setup.tools import Tool

RELEASE = "release of "  # prefix of `origin` for a tool from its project's own release
_WRITING = threading.RLock()


@dataclass(frozen=True)
class Entry:
    """A tool that is ready to use."""

    path: str  # absolute path to a program or directory
    version: str
    origin: str
    stamp: str  # this repository's requirements for it
    size: int  # bytes, for the file or the directory itself
    modified: int  # modification time, in nanoseconds since 1970

    @classmethod
    def from_file(cls, path: Path, version: str, origin: str, stamp: str) -> "Entry":
        """Return an entry for a file or directory in its current state."""
        stat = path.stat()
        return cls(str(path), version, origin, stamp, stat.st_size, stat.st_mtime_ns)

    def holds(self, stamp: str) -> bool:
        """Return whether the file is unchanged and meets the requirements hashed in `stamp`."""
        try:
            return self == Entry.from_file(Path(self.path), self.version, self.origin, stamp)
        except OSError:
            return False


Entries = dict[str, Entry]


@dataclass(frozen=True)
class Problem:
    """A tool that can't be provided, with the reason and a remedy."""

    tool: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.why}. {self.remedy}".rstrip()


Results = Mapping[str, Entry | Problem]  # what a source returns, by the tool's name


def load() -> Entries:
    """Return the recorded tools; empty if there is no record or a different version wrote it."""
    try:
        return {name: Entry(**entry) for name, entry in _document()["tools"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def save(entries: Entries) -> None:
    """Replace the recorded tools with `entries`."""
    _write("tools", {name: asdict(entries[name]) for name in sorted(entries)})


def checksums() -> dict[str, str]:
    """Return the checksums of the releases used so far, by URL; a checksum must never change."""
    return dict(_document().get("checksums", {}))


def trust(address: str, checksum: str) -> None:
    """Record the checksum of a release that is in use."""
    with _WRITING:
        _write("checksums", {**checksums(), address: checksum})


def unchanged(entries: Entries, tools: tuple[Tool, ...], *, build: bool = False) -> Entries:
    """Return the tools that need not be provided again; with `build`, no tools from releases."""
    return {
        tool.name: entry
        for tool in tools
        if (entry := entries.get(tool.name)) is not None
        and entry.holds(tool.stamp)
        and not (build and entry.origin.startswith(RELEASE))
    }


def _document() -> dict[str, Any]:
    try:
        document = json.loads(toolchain.record().read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def _write(part: str, content: Mapping[str, Any]) -> None:
    """Replace part of the record atomically, so that no process reads it half-written."""
    place = toolchain.record()
    with _WRITING:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write(place, json.dumps({**_document(), part: content}, indent=2) + "\n", mode=0o644)
