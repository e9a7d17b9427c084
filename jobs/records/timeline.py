"""Keeps what is seen of a run, with times, beside its logs: conditions, containers, events."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from core.process import json_map
from jobs.observe.exits import NEVER, moment
from jobs.observe.run_state import RunState
from jobs.result import End

_MOST = 5000
"""Entries that are kept: those of a thousand replicas that start, end and are restarted once."""
_MOST_EVENTS = 500
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
    found = [entry for entry in map(json_map, lines) if entry.keys() >= _FIELDS]
    return sorted(found, key=lambda entry: str(entry["time"]))


@dataclass
class Timeline:
    """Writes the entries of one run; whatever becomes of the disk, the run goes on."""

    file: Path

    def __post_init__(self) -> None:
        # What an interrupted process has written is seen again by the one that goes on.
        self._known = {_line(entry) for entry in entries(self.file)}

    def see(self, run: RunState) -> None:
        """Write what has been seen of a run since the last call."""
        self._write(_of_run(run))

    def end(self, end: End, at: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Write how a run ended, and Kubernetes' latest events about it."""
        found = sorted(map(_of_event, events), key=lambda entry: entry["time"])
        self._write([*found[-_MOST_EVENTS:], _entry(at, "end", end.state, end.reason)])

    def _write(self, found: Iterable[Entry]) -> None:
        lines = [line for line in dict.fromkeys(map(_line, found)) if line not in self._known]
        new = lines[: max(0, _MOST - len(self._known))]
        if not new:
            return
        self._known.update(new)
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self.file, flags, 0o600), "a", encoding="utf-8") as file:
                # Before each line, as a kill may have left the last one half-written.
                file.write("".join(f"\n{line}" for line in new))


def _of_run(run: RunState) -> Iterator[Entry]:
    job = f"PyTorchJob {run.job['metadata'].get('name')}"
    for each in (run.job.get("status") or {}).get("conditions") or []:
        if each.get("status") == "True":
            text = f"{each['type']}: {each.get('message') or each.get('reason') or ''}"
            yield _entry(each.get("lastTransitionTime"), "condition", job, text)
    for replica in run.replicas.values():
        if replica.running:
            text = f"started again ({replica.restarts})" if replica.restarts else "started"
            yield _entry(replica.running_since, "container", str(replica), text)
        for ended in replica.exits:
            if ended.code == 0:
                yield _entry(ended.finished, "container", str(replica), str(ended))
    for failed in run.failures:
        yield _entry(failed.finished, "failure", str(failed.replica), str(failed))
    for lost in filter(None, (run.disruption, run.lost_node)):
        yield _entry(lost.at, "failure", job, lost.text)


def _of_event(event: Mapping[str, Any]) -> Entry:
    about, count = event["involvedObject"], event.get("count") or 1
    times = ("lastTimestamp", "eventTime", "firstTimestamp")
    at = next((event[name] for name in times if event.get(name)), None)
    message = str(event.get("message", "")).strip()
    text = f"{event.get('reason')}: {message}" + (f" ({count} times)" if count > 1 else "")
    kind: Kind = "warning" if event.get("type") == "Warning" else "event"
    return _entry(at, kind, f"{about.get('kind')} {about.get('name')}", text)


def _entry(at: str | datetime | None, kind: Kind, about: str, text: str) -> Entry:
    when = at if isinstance(at, datetime) else moment(str(at))
    # One without a time of its own would be a new one each time that it is seen.
    shown = "" if when == NEVER else f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {"time": shown, "kind": kind, "about": about, "text": text}


def _line(entry: Entry) -> str:
    return json.dumps(entry)
