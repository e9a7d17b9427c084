"""A gate passes a run or says by how much it missed a limit."""

from collections.abc import Mapping
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.result import RunResult
from jobs.run.gate import GateHandler
from tests.unit.archived_run import line, made
from tests.unit.jobs.run.test_lifecycle import Quiet

RESULT: Mapping[str, Any] = {
    "state": "Succeeded",
    "accuracy": 0.97,
    "duration_seconds": 60.0,
    "time_to_accuracy_seconds": 12.5,
    "goal": "accuracy=0.9",
    "metrics": {"val_loss": 0.31},
}


def judge(result: Mapping[str, Any] = RESULT, **limits: Any) -> list[str]:
    """Let a gate judge a result, and return its warnings."""
    row = Quiet()
    GateHandler().create({"job": "mine", "result": result, **limits}, row)
    return row.said


def refusal(result: Mapping[str, Any] = RESULT, **limits: Any) -> str:
    with pytest.raises(RuntimeError) as caught:
        judge(result, **limits)
    return str(caught.value)


def require(figure: str, **bounds: float) -> dict[str, Any]:
    return {"require": {figure: bounds}}


def test_a_gate_without_limits_lets_a_success_pass_and_raises_the_reason_of_a_failure() -> None:
    assert judge() == []
    lost = [{"number": 1, "reason": "pod a was evicted"}, {"number": 2, "reason": "node b is gone"}]
    said = refusal({"state": "Failed", "reason": "rank 1 exited with code 3", "attempts": lost})
    assert said.startswith("job mine ended Failed: rank 1 exited with code 3")
    assert "attempt 1: pod a was evicted\n    attempt 2: node b is gone" in said
    with pytest.raises(RuntimeError, match="job mine has no result"):
        GateHandler().create({"job": "mine"}, Quiet())


def test_every_new_result_or_limit_is_checked_again() -> None:
    state = {"job": "mine", "result": RESULT, "minAccuracy": 1}
    news: dict[str, list[Any]] = {
        "result": [{**RESULT, "accuracy": 0.5}, UNKNOWN, None],
        "minAccuracy": [2, None],
        "maxDuration": [2],
    }
    for path, value in ((path, value) for path, values in news.items() for value in values):
        now = {key: each for key, each in {**state, path: value}.items() if each is not None}
        [change] = GateHandler().diff(state, now, Quiet())
        assert (change.path, change.replace) == (path, True)
    assert GateHandler().diff(state, dict(state), Quiet()) == []


def test_an_accuracy_is_judged_by_the_data_set_that_the_run_was_trained_on() -> None:
    minimum = {"cifar10": 0.5, "fashion-mnist-as-cifar10": 0.84}
    result = {**RESULT, "accuracy": 0.6, "dataset": "cifar10"}
    judge(result, minAccuracy=minimum)
    for other, words in (
        ("fashion-mnist-as-cifar10", "0.24 less"),
        ("mnist", "its result is for mnist"),
    ):
        assert words in refusal({**result, "dataset": other}, minAccuracy=minimum)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            {"step": 100, "seconds": 23.4, "repeated_steps": 0},
            "a recovery from its `drill` of 23.4 s, which is 3.4 s more than its `within` 20",
        ),
        ({"step": 110}, "no rank reported a step after step 110, at which rank 1 was killed"),
        ({"last_step": 50}, "rank 1 reported no step 100 or later (50 was its last one)"),
        ({}, "rank 1 reported no step 100 or later (none at all). Choose an earlier step, or have"),
        (None, "did not take place"),
    ],
)
def test_a_drill_passes_only_if_the_job_recovered_in_time_and_fails_with_its_reason(
    seen: dict[str, Any] | None, said: str
) -> None:
    drill = {"rank": 1, "step": 100, "within": 20}
    passed = {**RESULT, "drill": {"rank": 1, "step": 100, "seconds": 19.6, "repeated_steps": 0}}
    judge(passed, drill=drill)
    assert str(RunResult.from_map(passed)).endswith(", drill: recovered in 20 s")
    missed = RESULT if seen is None else {**RESULT, "drill": {"rank": 1, **seen}}
    assert said in refusal(missed, drill=drill)
    failed = {"state": "Failed", "reason": "killed", "drill": {"rank": 1, "step": 100}}
    said = "its drill killed rank 1 at step 100, and no rank reported a later step"
    assert said in refusal(failed, drill=drill)


_APART = {"ranks": 4, "worlds": 4, "largest": 1, "met": False}


@pytest.mark.parametrize(
    ("apart", "seen"),
    [
        ({}, "4 ranks trained in 4 independent groups; no process group joined them"),
        ({"largest": 4}, "nothing was sent through their process group of 4"),
        ({"largest": 2, "worlds": 2}, "each process group had at most 2 of them"),
    ],
)
def test_ranks_that_trained_apart_miss_any_limit(apart: dict[str, Any], seen: str) -> None:
    result = {**RESULT, "apart": {**_APART, **apart}}
    for limit in ({"minAccuracy": 0.9}, require("val_loss", max=1)):
        said = refusal(result, **limit)
        assert seen in said
        assert "`distributed: false`" in said
        assert judge(result, **limit, distributed=False) == []
    assert "did not meet 2 limits" in refusal(result, minAccuracy=0.99)


@pytest.mark.parametrize(
    ("apart", "limits"), [({}, {}), ({"met": True}, {"minAccuracy": 0.9})], ids=["no gate", "met"]
)
def test_ranks_apart_are_at_least_a_warning(apart: dict[str, Any], limits: dict[str, Any]) -> None:
    result = {**RESULT, "apart": {**_APART, **apart}}
    assert judge(result, **limits, distributed=False) == []
    [warning] = judge(result, **limits)
    assert "job mine lacks joint training of all ranks: 4 ranks" in warning


def test_a_limit_that_is_just_met_passes() -> None:
    judge(minAccuracy=0.97, maxDuration=60, maxTimeToAccuracy=12.5)
    judge(require={"val_loss": {"max": 0.31}, "accuracy": {"min": 0.97}})


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"minAccuracy": 0.98}, "0.97, which is 0.01 less than its `minAccuracy` 0.98"),
        ({"maxDuration": 50}, "a duration of 60 s, which is 10 s more than its `maxDuration` 50"),
        ({"maxTimeToAccuracy": 12}, "12.5 s, which is 0.5 s more than its `maxTimeToAccuracy` 12"),
        (require("val_loss", max=0.3), "val_loss is 0.31, which is 0.01 more than its `max` 0.3"),
        (require("accuracy", min=0.98, max=1), "0.97, which is 0.01 less than its `min` 0.98"),
        (require("f1", min=1), "no f1 was reported, so `require` can't be checked (reported: acc"),
        (require("val_los", max=1), "(reported: accuracy, val_loss). Did you mean val_loss? Have"),
    ],
)
def test_a_missed_limit_is_reported_with_the_difference(limits: dict[str, Any], words: str) -> None:
    said = refusal(**limits)
    assert words in said
    assert "Its result is kept, and it is not trained again" in said
    every = refusal(**{"minAccuracy": 0.99, "maxDuration": 50, "maxTimeToAccuracy": 20} | limits)
    assert words in every, "all are reported together"


@pytest.mark.parametrize("missed_by", [1e-5, 1e-9])
def test_a_tiny_difference_is_not_rounded_to_zero(missed_by: float) -> None:
    said = refusal({**RESULT, "accuracy": 0.97 - missed_by}, minAccuracy=0.97)
    assert f"which is {missed_by:.4g} less" in said
    assert "accuracy of 0.97," not in said


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_figure_that_is_not_finite_misses_each_of_its_limits(value: float) -> None:
    figures = {"accuracy": value, "time_to_accuracy_seconds": value, "metrics": {"val_loss": value}}
    bounds = {"accuracy": {"min": 0.1, "max": 1}, "val_loss": {"min": 0, "max": 1}}
    limits = {"minAccuracy": 0.1, "maxTimeToAccuracy": 12, "require": bounds}
    said = refusal({**RESULT, **figures}, **limits)
    assert said.count("which is not finite and so can't meet its `") == 6
    kept = RunResult.from_map({**RESULT, **figures}).as_map()
    assert refusal(kept, **limits) == said, "a state has no such number"


def test_a_figure_that_was_not_reported_cannot_be_checked() -> None:
    said = refusal({"state": "Succeeded"}, minAccuracy=0.97, maxDuration=12, maxTimeToAccuracy=12)
    for words in ("no accuracy was reported", "has no duration", "no time to accuracy was"):
        assert words in said
    assert "its goal: none" in said


def test_a_number_that_was_only_printed_comes_with_the_line_to_add() -> None:
    """It says nothing of settings: no other ones would help."""
    run_id = "mine-20260101-000000-aaaa"
    made([line(1, "epoch 3: accuracy=0.9666"), line(1, "accuracy=0.1")], job="mine", run_id=run_id)
    silent = {"state": "Succeeded", "run_id": run_id}
    bounds = {"accuracy": {"min": 0.9}, "perplexity": {"max": 3}}
    for said in (refusal(silent, minAccuracy=0.9), refusal(silent, require=bounds)):
        assert "accuracy=0.9666: add `metrics: {accuracy: 'accuracy=([0-9.]+)'}` to the job" in said
        assert "change its settings" not in said
    assert "Have its program report one" in said
    assert "change its settings or the limit" in refusal(minAccuracy=0.99)
