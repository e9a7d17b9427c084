"""A run's result is one form for the trainer, the state, the outputs and docs/results.md."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jobs.result import FailureDetails, RunResult, TrainingReport

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/results.md"
_OF_A_RANK = {
    *("rank", "world_size", "samples_seen", "total_samples_seen", "duration_seconds", "tracking")
}
"""What a rank's message has besides, of which the job's is a sum, the first or another figure."""
_NAME = re.compile(r"`(\w+)`")


def names(of: type) -> set[str]:
    return {each.name for each in fields(of)}


def section(title: str) -> str:
    return DOCUMENT.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def listed(title: str) -> set[str]:
    """Return the names in the first column of a section's table."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in _NAME.findall(row.split("|")[1])}


def test_the_documentation_lists_each_field_of_a_result_and_no_other() -> None:
    assert listed("A job's result") == names(RunResult) - {"failure"}
    told = set(_NAME.findall(section("A job's result")))
    assert names(FailureDetails) - told <= {"stacks", "followers"}
    assert listed("How a result travels") == names(TrainingReport) | _OF_A_RANK


def test_a_result_is_the_same_after_it_was_kept_in_a_state() -> None:
    details: dict[str, Any] = {"rank": 1, "exit_code": 3, "log": ["a"], "events": []}
    details["stacks"] = {"rank 0": ["f"]}
    known: dict[str, Any] = {"state": "Failed", "reason": "rank 1", "accuracy": 0.5}
    result = RunResult(**known, failure=FailureDetails(**details))
    kept = result.as_map()
    assert kept == {**known, "failure": details}
    assert RunResult.from_map(kept) == result
    of_another_version = {"state": "Succeeded", "reason": "", "of_the_future": 1}
    assert RunResult.from_map(of_another_version) == RunResult(state="Succeeded")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"state": "TimedOut", "reason": "too late"}, "TimedOut: too late"),
        ({"duration_seconds": 9, "accuracy": 0.98}, "Succeeded in 9 s, accuracy 0.98"),
        ({"duration_seconds": 9, "resumed_step": 500}, "Succeeded in 9 s, resumed from step 500"),
    ],
)
def test_a_result_in_one_line(fields: dict[str, Any], line: str) -> None:
    assert str(RunResult(**{"state": "Succeeded", **fields})) == line
