"""A run is compared with its baseline and the job's earlier runs, each figure in its direction."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.config import CATALOG
from jobs.model.parts import Bounds
from jobs.records.history import Record
from jobs.result import RunResult
from jobs.run.gate import limits
from scripts.cli.runs import compare
from scripts.cli.runs.compare import BASELINE, baseline, compared, of_job, with_limits
from scripts.cli.state import JobState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import made, rank_log, remembered
from tests.unit.not_none import not_none

LATEST, BEFORE = "mine-20260102-000000-bbbb", "mine-20260101-000000-aaaa"


def record(*epochs: Mapping[str, Any], settings: Any = None, **result: Any) -> Record:
    return Record(run_id="mine-2", submitted="", result={"state": "Succeeded", **result},
                  provenance={"settings": settings or {}}, epochs=epochs)  # fmt: skip


def beside(mine: Record, other: Record, **require: Any) -> dict[str, str]:
    """Return what stands in the other run's column, by figure."""
    return {name: cell for name, _, cell in compared(mine, {"other": other}, require).rows}


def job(result: Mapping[str, Any] | None = None) -> JobState:
    ended = None if result is None else RunResult.from_map(result)
    return JobState("mine", {"namespace": "x", "job": {"epochs": 1}}, ended)


@pytest.mark.parametrize(
    ("figure", "mine", "other", "verdict"),
    [
        ("accuracy", 0.9, 0.99, "9.1% worse"),
        ("loss", 0.2, 0.1, "100.0% worse"),
        ("duration_seconds", 30, 60, "50.0% better"),
        ("goodput", 0.5, 0.5, "same"),
        ("loss", 0.1, 0.0, "0.1 worse"),
    ],
)
def test_each_figure_is_better_or_worse_by_its_direction(
    figure: str, mine: float, other: float, verdict: str
) -> None:
    [cell] = beside(record(**{figure: mine}), record(**{figure: other})).values()
    assert cell == f"{other:.6g} ({verdict})"


def test_the_jobs_own_limit_is_the_direction_of_its_own_figure() -> None:
    mine, other = record(metrics={"drift": 2.0}), record(metrics={"drift": 1.0})
    assert beside(mine, other)["drift"] == "1 (100.0% more)"
    assert beside(mine, other, drift={"max": 3})["drift"] == "1 (100.0% worse)"
    assert beside(mine, other, drift={"min": 3})["drift"] == "1 (100.0% better)"


def test_the_time_to_accuracy_is_to_what_all_of_them_reached() -> None:
    quick = record({"epoch": 1, "accuracy": 0.97, "elapsed_seconds": 10.0})
    rest = {"epoch": 2, "accuracy": 0.98, "elapsed_seconds": 20.0}
    slow = record({"epoch": 1, "accuracy": 0.9, "elapsed_seconds": 10.0}, rest)
    assert beside(quick, slow)["seconds to accuracy 0.97"] == "20 (50.0% better)"


def test_throughput_and_the_share_that_goes_backward_are_means_of_the_epochs() -> None:
    parts = {"forward": 1.0, "backward": 3.0}
    mine = record({"samples_per_second": 100.0, "seconds_in": parts})
    equal = {"seconds_in": {"forward": 1.0, "backward": 1.0}}
    other = record({"samples_per_second": 50.0, **equal}, {"samples_per_second": 150.0, **equal})
    found = beside(mine, other)
    assert found["samples per second"] == "100 (same)"
    assert found["backward and communication, share of a step"] == "0.5 (50.0% worse)"


def test_other_settings_or_another_script_are_named() -> None:
    mine, other = record(settings={"epochs": 2, "workers": 1}), record(settings={"epochs": 1})
    [legend, note] = compared(mine, {"other": other}, {}).notes
    assert "this run" in legend
    assert note == "other was trained with epochs 1 (here 2), workers unset (here 1)"
    mine = record(settings={"script": "train.py"})
    known = {"settings": {"script": "train.py"}, "files": ["mine-ab12"]}
    [_, note] = compared(mine, {"other": replace(mine, provenance=known)}, {}).notes
    assert note == "other was trained with a different script"


def test_a_run_that_failed_is_called_so() -> None:
    failed = replace(record(loss=0.2), result={"state": "Failed", "duration_seconds": 12})
    assert beside(record(loss=0.1), failed)["state"] == "Failed"
    assert "state" not in beside(record(loss=0.1), record(loss=0.2))


def test_a_limit_that_was_missed_is_still_the_jobs_own() -> None:
    declared = replace(CATALOG["mnist-gloo"], name="mine", require={"drift": Bounds(max=3)})
    assert with_limits(job(), [declared]).gate == limits(declared)
    passed = replace(job(), gate={"require": {"drift": {"max": 2}}})
    assert with_limits(passed, [declared]) == passed
    assert with_limits(job(), []).gate is None


def test_earlier_runs_that_ended_are_compared_newest_first_and_one_by_its_id() -> None:
    made([rank_log(0)], run_id=LATEST)
    for run_id in ("old-name-20251231-000000-cccc", BEFORE, LATEST):
        remembered(run_id, {"state": "Succeeded", "accuracy": 0.9, "run_id": run_id})
    remembered("mine-20260103-000000-dddd", None)
    every = not_none(of_job("dev", job()))
    assert every.columns == ["metric", LATEST, BEFORE, "old-name-20251231-000000-cccc"]
    assert not_none(of_job("dev", job(), BEFORE)).columns == ["metric", LATEST, BEFORE]
    with pytest.raises(CommandError, match=f'did you mean "{BEFORE}"'):
        of_job("dev", job(), BEFORE[:-1])


def test_a_run_that_another_machine_waited_for_is_what_the_state_has() -> None:
    found = not_none(of_job("dev", job({"state": "Succeeded", "run_id": LATEST, "accuracy": 0.9})))
    assert found.rows == [["accuracy", "0.9"]]
    assert of_job("dev", job()) is None


def test_every_baseline_is_of_a_demo_that_succeeded_with_its_machine_and_curve(root: Path) -> None:
    files = sorted((root / "jobs" / "baselines").glob("*.json"))
    assert {file.stem for file in files} == {name for name in CATALOG if "nccl" not in name}
    for file in files:
        about, run = baseline(file.stem) or ("", record())
        assert "cores" in about
        assert (run.result or {})["state"] == "Succeeded"
        assert run.epochs or CATALOG[file.stem].module is None
        assert [*compared(run, {BASELINE: run}, {}).rows[0]][2].endswith("(same)")


def test_a_baseline_is_compared_first(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(BEFORE, {"state": "Succeeded", "accuracy": 0.9})
    remembered(LATEST, {"state": "Succeeded", "accuracy": 0.9})
    monkeypatch.setattr(compare, "baseline", lambda _: ("2 cores; 2026-11-25", record(accuracy=1)))
    found = not_none(of_job("dev", job()))
    assert found.columns == ["metric", LATEST, BASELINE, BEFORE]
    assert found.notes[0] == "Baseline for mine, measured on 2 cores; 2026-11-25"
