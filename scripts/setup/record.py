"""toolchain.json, from the side that writes it.

While a tool's size, time of change and requirements are those recorded, it is taken unseen: fast.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core import files, toolchain
from scripts.setup.tools import Tool

RELEASE = "release of "  # what the origin of a project's own release begins with
_WRITING = threading.RLock()


@dataclass(frozen=True)
class Entry:
    """A tool that was found or made."""

    path: str  # absolute; of a program or a directory
    version: str
    origin: str
    stamp: str  # the repository's requirements for it
    size: int  # bytes, of the file or directory itself
    modified: int  # its time of change, in nanoseconds since 1970

    @classmethod
    def from_file(cls, path: Path, version: str, origin: str, stamp: str) -> "Entry":
        """Return the entry for a file or directory as it is now."""
        stat = path.stat()
        return cls(str(path), version, origin, stamp, stat.st_size, stat.st_mtime_ns)

    def holds(self, stamp: str) -> bool:
        """Return whether the file is still the one that was recorded, and still what is needed."""
        try:
            return self == Entry.from_file(Path(self.path), self.version, self.origin, stamp)
        except OSError:
            return False


Entries = dict[str, Entry]


@dataclass(frozen=True)
class Problem:
    """A tool that can't be provided: why, and what the user can do about it."""

    tool: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.why}. {self.remedy}".rstrip()


Results = Mapping[str, Entry | Problem]  # what a source of tools returns, by the tool's name


def load() -> Entries:
    """Return what was recorded; nothing without a record, or for one that another version wrote."""
    try:
        return {name: Entry(**entry) for name, entry in _document()["tools"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def save(entries: Entries) -> None:
    """Replace the recorded tools."""
    _write("tools", {name: asdict(entries[name]) for name in sorted(entries)})


def checksums() -> dict[str, str]:
    """Return the checksums of the releases that were used, by address: they never change."""
    return dict(_document().get("checksums", {}))


def trust(address: str, checksum: str) -> None:
    """Add the checksum of a release that has been used."""
    with _WRITING:
        _write("checksums", {**checksums(), address: checksum})


def unchanged(entries: Entries, tools: tuple[Tool, ...], *, build: bool = False) -> Entries:
    """Return those of the tools that need not be resolved again; with `build` no releases."""
    return {
        tool.name: entry
        for tool in tools
        if (entry := entries.get(tool.name)) is not None
        and entry.holds(tool.stamp)
        and not (build and entry.origin.startswith(RELEASE))
    }


def _document() -> dict[str, Any]:
    try:
        found = json.loads(toolchain.record().read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(part: str, content: Mapping[str, Any]) -> None:
    """Replace a part of the record in one step, so that no process reads half of it."""
    place = toolchain.record()
    with _WRITING:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write(place, json.dumps({**_document(), part: content}, indent=2) + "\n", mode=0o644)
