"""The provenance and result of each run of a job, kept after its logs are deleted.

A record is <run_id>.json, next to the folder with the run's logs. Disk errors never stop a run.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from core.files import private_directory, write
from core.fitting import fitting
from core.paths import project_dir
from core.process import CommandFailed, run
from jobs.api.lines import seconds_between
from jobs.records.archive import Archive, Run, by_time
from jobs.records.events import Event, events_of, figure, numbers
from jobs.result import RunResult
from slipway.termination import read

MOST = 200
"""The maximum number of records to keep for each job; the oldest are deleted first."""


def mean(values: Collection[float]) -> float:
    """Return the mean, even of infinite values, for which `statistics.fmean` may raise an error."""
    return sum(values) / len(values)


_MERGES: Mapping[str, Callable[[Sequence[float]], float]]
_MERGES = {"loss": mean, "accuracy": mean, "seconds": mean, "samples_per_second": sum}
_STATUS = ("git", "--no-optional-locks", "status", "--porcelain=v2", "--branch")
_COMMIT = "# branch.oid "


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of one run."""

    run_id: str
    submitted: str  # RFC 3339, by the cluster's clock
    provenance: Mapping[str, Any] = field(default_factory=dict)  # see `provenance`
    result: Mapping[str, Any] | None = None  # None while it is running, or if its end was missed
    epochs: Sequence[Mapping[str, Any]] = ()  # see `epochs`

    @property
    def run_result(self) -> RunResult | None:
        return None if self.result is None else RunResult.from_map(self.result)


@dataclass(frozen=True)
class History:
    """The records of one job's runs."""

    archive: Archive

    def begin(self, record: Record) -> None:
        """Record a run, unless it is already recorded because the wait was resumed."""
        if self.find(record.run_id) is None:
            self._save(record)
            with suppress(OSError):
                for old in self._files()[:-MOST]:
                    old.unlink(missing_ok=True)

    def end(self, run_id: str, result: Mapping[str, Any]) -> None:
        if (record := self.find(run_id)) is not None:
            curve: list[dict[str, Any]] = []
            with suppress(Exception):  # a program's output must not make recording fail
                curve = epochs(self.archive.run(run_id), limit_seconds=10.0)
            self._save(replace(record, result=result, epochs=curve))

    def find(self, run_id: str) -> Record | None:
        """Return the record of a run, or None if it is missing or unreadable."""
        return _read(self._file(run_id))

    def records(self) -> list[Record]:
        """Return the records, oldest run first."""
        return [record for record in map(_read, self._files()) if record is not None]

    def _files(self) -> list[Path]:
        return sorted(self.archive.directory.glob("*.json"), key=lambda file: by_time(file.stem))

    def _file(self, run_id: str) -> Path:
        return self.archive.directory / f"{run_id}.json"

    def _save(self, record: Record) -> None:
        with suppress(OSError):
            private_directory(self.archive.directory)
            write(self._file(record.run_id), json.dumps(asdict(record)), mode=0o600)


def _read(file: Path) -> Record | None:
    """Return the valid part of the record in a file, or None if there is none."""
    document = read(file, limit=-1)  # no limit, since many epochs exceed a message's
    curve = document.pop("epochs", None)
    kept, _ = fitting(Record, document)
    if not kept.keys() >= {"run_id", "submitted"}:
        return None
    if "state" not in fitting(RunResult, kept.get("result", {}))[0]:
        kept.pop("result", None)
    if not isinstance(kept.get("provenance", {}).get("settings", {}), dict):
        del kept["provenance"]["settings"]
    every = curve if isinstance(curve, list) else ()
    return Record(**kept, epochs=[_figures(each) for each in every if isinstance(each, dict)])


def _figures(epoch: Mapping[str, Any]) -> dict[str, Any]:
    parts = numbers(epoch.get("seconds_in"))
    return {"epoch": 0, **numbers(epoch), **({"seconds_in": parts} if parts else {})}


def epochs(run: Run, limit_seconds: float = float("inf")) -> list[dict[str, Any]]:
    """Return one merged report per epoch from all ranks; empty if reading exceeds the time limit.

    Each contains `epoch` and, if known, `loss`, `accuracy`, `seconds` spent in training,
    `samples_per_second` over all ranks, `seconds_in` each part of a step, averaged over the ranks,
    and `elapsed_seconds` since training began.
    """
    deadline = time.monotonic() + limit_seconds
    events: dict[int, dict[int, Event]] = {}
    begun = ""
    for log in run.logs():
        if time.monotonic() > deadline:
            return []
        for event in events_of(log, ("started", "epoch")):
            if event["event"] == "started":
                begun = min(begun or str(event.get("time")), str(event.get("time")))
            elif isinstance(event.get("epoch"), int) and isinstance(event.get("rank"), int):
                # If an epoch was repeated from a checkpoint, the latest report counts.
                events.setdefault(event["epoch"], {})[event["rank"]] = event
    return [_merged(epoch, [*of.values()], begun) for epoch, of in sorted(events.items())]


def _merged(epoch: int, ranks: Sequence[Event], begun: str) -> dict[str, Any]:
    merged: dict[str, Any] = {"epoch": epoch}
    for name, merge in _MERGES.items():
        values = [value for each in ranks if (value := figure(each.get(name))) is not None]
        if values:
            merged[name] = round(merge(values), 6)
    parts = [numbers(each.get("seconds_in")) for each in ranks]
    names = dict.fromkeys(name for each in parts for name in each)
    if names:
        merged["seconds_in"] = {
            name: round(mean([each.get(name, 0.0) for each in parts]), 3) for name in names
        }
    seconds = seconds_between(begun, max(str(each.get("time")) for each in ranks))
    return merged | ({} if seconds is None else {"elapsed_seconds": round(seconds, 3)})


def provenance(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance of a run with these inputs, without unknown fields.

    `revision` is the commit in the directory of the job's script or build, or else in the project,
    with "-dirty" if files differ from it or are untracked. `image` is the reference that pods use,
    `files` the ConfigMaps with the script, whose names contain a hash of its content, `data` the
    declared data, with the sha256 if declared, and `settings` the complete declaration.
    """
    settings, script = inputs["job"], inputs.get("script")
    own = settings.get("script") or settings.get("build", {}).get("context", "")
    program = project_dir() / own
    values = {
        "revision": revision(program if program.is_dir() else program.parent),
        "image": inputs["image"],
        "files": None if script is None else [script["name"]],
        "data": settings.get("data"),
        "settings": settings,
    }
    return {name: value for name, value in values.items() if value is not None}


def revision(directory: Path) -> str | None:
    """Return a directory's commit, or None if it has none or git does not respond in time."""
    try:
        lines = run(*_STATUS, cwd=directory, limit=5.0).splitlines()
    except (CommandFailed, OSError):
        return None
    commits = [line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)]
    if commits in ([], ["(initial)"]):
        return None
    is_changed = any(not line.startswith("#") for line in lines)
    return f"{commits[0]}-dirty" if is_changed else commits[0]
