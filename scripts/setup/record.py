"""toolchain.json, from the side that writes it, and how it stays right without running anything.

Besides what `infra.toolchain` reads, an entry keeps the file's size and time of change, and what
this repository asked of the tool then. While all three hold, the tool is taken as it is: that is
what makes a set-up that has nothing to do fast.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from infra import toolchain
from scripts.setup.tools import Tool


@dataclass(frozen=True)
class Entry:
    """A tool that was found or made.

    Args:
        path: Absolute; a program or a directory.
        version: As the program or its go.mod says it.
        origin: Where it came from, in words.
        stamp: What the repository asked of it.
        size: Bytes, of the file or directory itself.
        modified: Its time of change, in nanoseconds since 1970.
    """

    path: str
    version: str
    origin: str
    stamp: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path, version: str, origin: str, stamp: str) -> "Entry":
        """The entry for a file or directory as it is now."""
        stat = path.stat()
        return cls(str(path), version, origin, stamp, stat.st_size, stat.st_mtime_ns)

    def holds(self, stamp: str) -> bool:
        """Whether the file is still the one that was recorded, and still what is asked for."""
        try:
            stat = Path(self.path).stat()
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns, stamp) == (self.size, self.modified, self.stamp)


Entries = dict[str, Entry]


def load() -> Entries:
    """What was recorded; nothing when there is no record, or one that another version wrote."""
    try:
        document = json.loads(toolchain.record().read_text())
        return {name: Entry(**entry) for name, entry in document["tools"].items()}
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        return {}


def save(entries: Entries) -> None:
    """Replaces the record in one step, so that nobody reads half of it."""
    place = toolchain.record()
    place.parent.mkdir(parents=True, exist_ok=True)
    document = {"tools": {name: asdict(entries[name]) for name in sorted(entries)}}
    partial = place.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n")
    partial.replace(place)


def still_good(entries: Entries, tools: tuple[Tool, ...]) -> Entries:
    """Those of the tools that need not be looked at again."""
    return {
        tool.name: entries[tool.name]
        for tool in tools
        if tool.name in entries and entries[tool.name].holds(tool.stamp)
    }
