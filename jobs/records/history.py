"""What trained each run of a job, and what came of it; kept when the run's logs have gone.

    <state>/runs/<stack>/<job>/<run_id>.json    beside the folder of the run's logs

The process that waits for a run writes it: whatever becomes of the disk, the run goes on.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from core.files import private_directory, write
from jobs.api.lines import seconds_between
from jobs.records.archive import Archive, Run
from jobs.records.events import Event, events_of, figure, numbers
from jobs.result import RunResult

MOST = 200
"""Runs of a job that are remembered: the latest."""
_READING_SECONDS = 10.0
_SUMS, _MEANS = ("samples_per_second",), ("loss", "accuracy", "seconds")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is remembered of one run.

    Args:
        submitted: RFC 3339, by the cluster's clock.
        provenance: See `jobs.records.provenance`.
        result: As the state has it; None while it goes on, or where no process waited for its end.
        epochs: See `epochs`.
    """

    run_id: str
    submitted: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    epochs: Sequence[Mapping[str, Any]] = ()

    @property
    def run_result(self) -> RunResult | None:
        """Its result; None without one."""
        return None if self.result is None else RunResult.from_map(self.result)


@dataclass(frozen=True)
class History:
    """The records of one job's runs."""

    archive: Archive

    def begin(self, record: Record) -> None:
        """Remember a run, unless it is known: then it is taken up again."""
        if self.find(record.run_id) is None:
            self._save(record)
            with suppress(OSError):
                for old in self._files()[:-MOST]:
                    old.unlink(missing_ok=True)

    def end(self, run_id: str, result: Mapping[str, Any]) -> None:
        """Add what came of a run."""
        if (record := self.find(run_id)) is not None:
            try:
                curve = epochs(self.archive.run(run_id), _READING_SECONDS)
            except Exception:  # noqa: BLE001 - whatever its programs printed, the run has ended
                curve = []
            self._save(replace(record, result=result, epochs=curve))

    def find(self, run_id: str) -> Record | None:
        """Return what is remembered of a run; None where that is nothing, or unreadable."""
        return _read(self._file(run_id))

    def records(self) -> list[Record]:
        """Return what is remembered, the oldest run first."""
        return [record for record in map(_read, self._files()) if record is not None]

    def _files(self) -> list[Path]:
        # Their names have the time.
        return sorted(self.archive.directory.glob("*.json"))

    def _file(self, run_id: str) -> Path:
        return self.archive.directory / f"{run_id}.json"

    def _save(self, record: Record) -> None:
        with suppress(OSError):
            private_directory(self.archive.directory)
            write(self._file(record.run_id), json.dumps(asdict(record)), mode=0o600)


def _read(file: Path) -> Record | None:
    try:
        return Record(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def epochs(run: Run, limit_seconds: float = float("inf")) -> list[dict[str, Any]]:
    """Return what all ranks reported of each epoch; of very long logs what the time allows.

    Each has `epoch`, and as far as it is known `loss`, `accuracy`, `seconds` of training,
    `samples_per_second` of all ranks together, `seconds_in` the parts of their steps, as the mean
    of the ranks, and `elapsed_seconds` since training began.
    """
    deadline = time.monotonic() + limit_seconds
    found: dict[int, dict[int, Event]] = {}
    begun = ""
    for log in run.logs():
        if time.monotonic() > deadline:
            return []
        for event in events_of(log, ("started", "epoch")):
            if event["event"] == "started":
                begun = min(begun or str(event.get("time")), str(event.get("time")))
            elif isinstance(event.get("epoch"), int) and isinstance(event.get("rank"), int):
                # An epoch that was trained again, from a checkpoint, counts as it was at last.
                found.setdefault(event["epoch"], {})[event["rank"]] = event
    return [_merged(epoch, [*of.values()], begun) for epoch, of in sorted(found.items())]


def _merged(epoch: int, ranks: Sequence[Event], begun: str) -> dict[str, Any]:
    merged: dict[str, Any] = {"epoch": epoch}
    for name in (*_MEANS, *_SUMS):
        values = [value for each in ranks if (value := figure(each.get(name))) is not None]
        if values:
            merged[name] = round(sum(values) if name in _SUMS else fmean(values), 6)
    parts = [numbers(each.get("seconds_in")) for each in ranks]
    names = dict.fromkeys(name for each in parts for name in each)
    if names:
        merged["seconds_in"] = {
            name: round(fmean(each.get(name, 0.0) for each in parts), 3) for name in names
        }
    seconds = seconds_between(begun, max(str(each.get("time")) for each in ranks))
    return merged | ({} if seconds is None else {"elapsed_seconds": round(seconds, 3)})
