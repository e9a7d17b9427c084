"""Keeps what is seen of a run, with times, beside its logs: conditions, containers, events."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from core.process import json_map
from jobs.api.lines import NEVER, moment
from jobs.records.archive import open_private

_MOST = 5000
"""Entries that are kept: those of a thousand replicas that start, end and are restarted once."""
_FIELDS = {"time", "kind", "about", "text"}
Kind = Literal["condition", "container", "failure", "event", "warning", "end"]
Entry = dict[str, str]
"""`time` (RFC 3339, UTC, by the cluster's clock), `kind`, `about` which object, and `text`."""


def entries(file: Path) -> list[Entry]:
    """Return what was kept of a run, each once and in the order of time; none without a file."""
    try:
        lines = dict.fromkeys(file.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return []
    # A kill may have left one half-written.
    read = map(json_map, lines)
    found = [each for each in read if all(isinstance(each.get(name), str) for name in _FIELDS)]
    return sorted(found, key=lambda each: each["time"])


@dataclass
class Timeline:
    """Writes the entries of one run; whatever becomes of the disk, the run goes on."""

    file: Path

    def __post_init__(self) -> None:
        # What an interrupted process has written is seen again by the one that goes on.
        self._known = {json.dumps(each) for each in entries(self.file)}

    def add(self, found: Iterable[Entry]) -> None:
        """Write those of these entries that are not written yet."""
        lines = [line for line in dict.fromkeys(map(json.dumps, found)) if line not in self._known]
        new = lines[: max(0, _MOST - len(self._known))]
        if not new:
            return
        self._known.update(new)
        with suppress(OSError), open_private(self.file) as file:
            # Before each line, as a kill may have left the last one half-written.
            file.write("".join(f"\n{line}" for line in new).encode())


def entry(at: str | datetime | None, kind: Kind, about: str, text: str) -> Entry:
    """Return an entry; `at` may be unknown."""
    when = at if isinstance(at, datetime) else moment(str(at))
    # One without a time of its own would be a new one each time that it is seen.
    shown = "" if when == NEVER else f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {"time": shown, "kind": kind, "about": about, "text": text}
