"""Pages of the report made of archives, without a stack."""

from collections.abc import Mapping
from typing import Any

from jobs.result import RunResult
from scripts.cli.runs.report import Section, page, section
from scripts.cli.runs.results import Outcome
from scripts.cli.state import JobState
from tests.unit.archived_run import BEGAN, made, rank_log, remembered

RUN = "mine-20260101-000000-aaaa"
EARLIER = "mine-20251231-000000-eeee"
SETTINGS = {"name": "mine", "script": "train.py", "epochs": 2, "workers": 1}
SUCCEEDED = {
    "state": "Succeeded",
    "reason": "",
    "run_id": RUN,
    "accuracy": 0.92,
    "loss": 0.25,
    "world_size": 2,
    "duration_seconds": 20,
    "metrics": {"perplexity": 12.5},
    "exit_codes": {"0": 0, "1": 0},
    "artifacts": {"model.pt": {"url": "file:///x/model.pt", "sha256": "ab" * 32, "bytes": 1727}},
}


def entry(second: int, kind: str, text: str, about: str = "PyTorchJob mine") -> dict[str, str]:
    time = BEGAN.replace(second=second)
    return {"time": f"{time:%Y-%m-%dT%H:%M:%SZ}", "kind": kind, "about": about, "text": text}


HAPPENED = [
    entry(1, "condition", "Created: PyTorchJob mine is created."),
    entry(4, "event", "Pulled: image is present", "Pod mine-master-0"),
    entry(5, "condition", "Running: PyTorchJob mine is running."),
    entry(20, "end", "", "Succeeded"),
]


def ended(result: Mapping[str, Any] | None) -> RunResult | None:
    return None if result is None else RunResult.from_map(result)


def state(result: Mapping[str, Any] | None, *, gate: bool = True) -> JobState:
    """Return what the state has of dev's job `mine`."""
    inputs = {"namespace": "slipway-jobs", "job": SETTINGS}
    judged = {"job": "mine", "minAccuracy": 0.9, "result": result} if gate else None
    return JobState("mine", inputs, ended(result), gate=judged)


def job(result: Mapping[str, Any] | None = SUCCEEDED, *, gate: bool = True) -> Section:
    """Return the section of dev's job `mine`, whose archive has been made."""
    named = str((result or {}).get("state", "no result"))
    outcome = Outcome("mine", named, ended(result), "passed" if gate else "")
    return section("dev", state(result, gate=gate), outcome)


def usual() -> str:
    """Return the page on a run of two ranks and two epochs that succeeded, and one before it."""
    remembered(EARLIER, {**SUCCEEDED, "accuracy": 0.9, "run_id": EARLIER}, settings=SETTINGS)
    made([rank_log(0), rank_log(1)], timeline=HAPPENED)
    remembered(RUN, SUCCEEDED, settings=SETTINGS)
    return page("dev", [job()])
