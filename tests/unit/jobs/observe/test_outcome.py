"""A run's result comes from its ranks' termination messages, whatever these hold."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.observe.exits import Exit, remarks
from jobs.observe.outcome import result
from jobs.observe.run_state import RunState
from jobs.result import End, RunResult
from tests.unit.jobs_objects import RUNNING, ended, job, pod, summary


def of(*pods: dict[str, Any], **shape: Any) -> dict[str, Any]:
    run = RunState(job("Succeeded", **shape))
    for each in pods:
        run.see_pods([each])
    return result(End("Succeeded", ""), run, seen_at="2026-01-01T01:00:00Z").as_map()


def test_what_rank_0_says_of_all_ranks_is_the_runs_accuracy() -> None:
    found = of(
        pod(0, state=ended(0, summary(0))),
        pod(1, state=ended(0, summary(1, accuracy=0.1, epoch_accuracies=[0.1]))),
    )
    assert found["accuracy"] == 0.97
    assert found["epoch_accuracies"] == [0.9, 0.97]
    assert (found["backend"], found["dataset"], found["world_size"]) == ("gloo", "mnist", 2)
    assert found["training_seconds"] == 33.25


def test_figures_of_any_name_are_kept_and_nothing_else_is() -> None:
    told = {"metrics": {"val_loss": 0.31, "note": "text", "best": True}, "perplexity": 12.4}
    others = {"lr": None, "curve": [1, 2], "samples_seen": 5, "rank": 0}
    found = of(pod(0, state=ended(0, json.dumps({**told, **others}))), workers=0)
    assert found["metrics"] == {"perplexity": 12.4, "val_loss": 0.31}
    assert "metrics" not in of(pod(0, state=ended(0, summary(0))), workers=0)
    assert str(RunResult.from_map(found)) == "Succeeded in 60 s, perplexity 12.4, val_loss 0.31"


def test_times_in_steps_are_those_that_are_numbers() -> None:
    told = summary(0, step_seconds={"run-1": 3.5, "run-2": "long"})
    assert of(pod(0, state=ended(0, told)), workers=0)["step_seconds"] == {"run-1": 3.5}
    told = summary(0, step_seconds=[1])
    assert "step_seconds" not in of(pod(0, state=ended(0, told)), workers=0)


def test_each_figure_has_its_history_and_what_is_no_figure_is_left_out() -> None:
    told = {"val_loss": [0.5, None, "0.4", 0.31], "note": ["a"], "single": 3, "long": [1] * 1001}
    found = of(pod(0, state=ended(0, summary(0, epoch_metrics=told))))
    assert found["epoch_metrics"] == {
        "accuracy": [0.9, 0.97], "val_loss": [0.5, 0.31], "long": [1] * 1000
    }  # fmt: skip
    own = {"metrics": {"accuracy": 0.98, "loss": 0.1}, "epoch_metrics": {"accuracy": [0.5, 0.98]}}
    found = of(pod(0, state=ended(0, json.dumps(own))), workers=0)
    assert (found["accuracy"], found["loss"]) == (0.98, 0.1)
    assert found["epoch_accuracies"] == [0.5, 0.98]
    assert "metrics" not in found


def test_what_a_message_lacks_comes_from_the_log_of_its_replica() -> None:
    cut = {"accuracy": 0.97, "epoch_metrics": {"a": [2]}, "cut": ["epoch_metrics"]}
    run = RunState(job("Succeeded", workers=0))
    run.see_pods([pod(0, state=ended(0, json.dumps(cut)))])
    whole = {"epoch_metrics": {"a": [1, 2]}, "accuracy": 0.97}
    for read, history in (({0: whole}, [1, 2]), ({0: {}}, [2])):
        found = result(
            End("Succeeded", ""), run, "2026-01-01T01:00:00Z", full_message=read.__getitem__
        )
        assert (found.accuracy, found.epoch_metrics) == (0.97, {"a": history})


def test_samples_are_summed_over_the_ranks() -> None:
    found = of(
        pod(0, state=ended(0, summary(0, samples=15_001))),
        pod(1, state=ended(0, summary(1, samples=14_999))),
    )
    assert found["samples_seen"] == 30_000


def test_times_are_the_jobs_own() -> None:
    found = of(pod(0, state=ended(0, summary(0))), pod(1, state=ended(0, summary(1))))
    assert found["started"] == "2026-01-01T00:00:01Z"
    assert found["completed"] == "2026-01-01T00:01:01Z"
    assert found["duration_seconds"] == 60


def test_worker_i_is_rank_i_plus_1() -> None:
    found = of(pod(2, state=ended(143)), pod(0, state=ended(0)), pod(1, state=ended(3)), workers=3)
    assert found["exit_codes"] == {"0": 0, "1": 3, "2": 143}


def test_a_rank_that_was_started_again_counts_with_its_last_exit() -> None:
    found = of(
        pod(0, state=ended(0, summary(0))),
        pod(1, state=ended(0, summary(1)), last=ended(1), restarts=1),
    )
    assert found["exit_codes"] == {"0": 0, "1": 0}
    assert found["restarts"] == 1


def test_a_rank_that_runs_again_after_a_failure_shows_that_failure() -> None:
    found = of(pod(0, state=RUNNING), pod(1, state=RUNNING, last=ended(3), restarts=1))
    assert found["exit_codes"] == {"1": 3}


def test_a_failure_counts_also_when_another_pod_has_replaced_the_one_that_failed() -> None:
    again = pod(1, phase="Pending", created="2026-01-01T00:00:30Z")
    found = of(pod(0, state=RUNNING), pod(1, state=ended(3)), again)
    assert found["exit_codes"] == {"1": 3}


def test_a_missing_summary_leaves_the_sum_unknown_instead_of_too_small() -> None:
    found = of(pod(0, state=ended(0, summary(0))), pod(1, state=ended(0)))
    assert "samples_seen" not in found
    assert found["accuracy"] == 0.97


@pytest.mark.parametrize(
    "message",
    ["", "no JSON", json.dumps(summary(0))[:100], "[1, 2]", "3", '"text"', "null", "\x00\ufffd"],
)
def test_a_cut_or_foreign_message_is_no_summary(message: str) -> None:
    found = of(pod(0, state=ended(0, message)), pod(1, state=ended(0, summary(1))))
    assert "accuracy" not in found
    assert "samples_seen" not in found
    assert found["exit_codes"] == {"0": 0, "1": 0}


@given(st.text(max_size=200), st.integers(0, 255))
def test_any_message_and_exit_code_give_a_storable_result(message: str, code: int) -> None:
    found = of(pod(0, state=ended(code, message)), pod(1))
    assert json.loads(json.dumps(found)) == found
    assert found["exit_codes"] == {"0": code}


def test_what_a_failed_rank_reports_does_not_count_as_trained() -> None:
    found = of(pod(0, state=ended(0, summary(0))), pod(1, state=ended(1, summary(1))))
    assert "samples_seen" not in found


def test_the_latest_pod_of_a_rank_speaks_for_it() -> None:
    lost = pod(1, phase="Failed", created="2026-01-01T00:00:02Z")
    again = pod(1, state=ended(0, summary(1)), created="2026-01-01T00:00:30Z")
    found = of(again, lost, pod(0, state=ended(0, summary(0))))
    assert found["exit_codes"] == {"0": 0, "1": 0}


def test_several_processes_in_a_replica_are_several_ranks() -> None:
    found = of(
        pod(0, state=ended(0, summary(0, samples=40_000))),
        pod(1, state=ended(0, summary(2, samples=20_000))),
        processes=2,
    )
    assert found["world_size"] == 4
    assert found["samples_seen"] == 60_000
    assert found["exit_codes"] == {"0-1": 0, "2-3": 0}


def test_in_an_elastic_job_any_replica_may_have_been_rank_0_and_the_ledger_counts() -> None:
    lost = pod(0, state=RUNNING, last=ended(137), restarts=1, master=False)
    found = of(
        lost,
        pod(1, state=ended(0, summary(0, total_samples_seen=60_000)), master=False),
        pod(2, state=ended(0, summary(1, accuracy=0.1)), master=False),
        workers=3,
        elastic=True,
    )
    assert found["world_size"] == 3
    assert found["accuracy"] == 0.97
    assert found["samples_seen"] == 60_000
    assert found["exit_codes"] == {"0": 137, "1": 0, "2": 0}


@pytest.mark.parametrize("accuracy", [None, "0.98", True, [0.98]])
def test_an_accuracy_that_is_no_number_is_left_out(accuracy: object) -> None:
    told = summary(0, accuracy=accuracy)
    found = of(pod(0, state=ended(0, told)), pod(1, state=ended(0, summary(1))))
    assert "accuracy" not in found


def test_nan_and_infinity_are_not_reported() -> None:
    message = json.dumps(summary(0, accuracy=float("nan"), loss=float("inf")))
    found = of(pod(0, state=ended(0, message)), pod(1, state=ended(0, summary(1))))
    assert "NaN" in message
    assert "accuracy" not in found
    assert "loss" not in found


def test_another_ranks_accuracy_is_not_taken_for_rank_0s() -> None:
    found = of(pod(0, state=ended(0)), pod(1, state=ended(0, {"accuracy": 0.1})))
    assert "accuracy" not in found


@pytest.mark.parametrize(
    "listed", ["a file", ["model.pt"], {"model.pt": "there"}, {"model.pt": {"url": 3}}]
)
def test_artifacts_that_lack_what_inputs_need_are_left_out(listed: object) -> None:
    found = of(pod(0, state=ended(0, summary(0, artifacts=listed))))
    assert "artifacts" not in found


def test_artifacts_are_those_of_rank_0() -> None:
    good = {"model.pt": {"url": "file:///model.pt", "sha256": "0" * 64, "bytes": 1}}
    found = of(pod(0, state=ended(0, summary(0, artifacts={**good, "bad": {}}))))
    assert found["artifacts"] == good


def test_the_tracked_run_is_named_by_any_replica_also_when_the_run_failed() -> None:
    page = "http://localhost:5000/#/experiments/1/runs/ab"
    message = json.dumps({"rank": 1, "error": "ValueError: x", "tracking": page})
    assert of(pod(0, state=RUNNING), pod(1, state=ended(1, message)))["tracking"] == page
    assert "tracking" not in of(pod(0, state=ended(0, summary(0, tracking=["x"]))), workers=0)


_ALONE = [
    pod(rank, state=ended(0, {"rank": rank, "trained": [[rank, 1]]}), phase="Succeeded")
    for rank in (0, 1)
]


def test_ranks_that_trained_apart_are_in_the_result_of_a_job_of_a_fixed_size() -> None:
    assert of(*_ALONE)["apart"] == {"ranks": 2, "worlds": 2, "largest": 1, "met": False}
    joined = [pod(rank, state=ended(0, {"trained": [[rank, 2, 0]]})) for rank in (0, 1)]
    assert "apart" not in of(*joined)
    assert "apart" not in of(*_ALONE, workers=2, elastic=True)
    assert "apart" not in of(_ALONE[0], workers=0)


def test_ranks_that_a_programs_own_launcher_started_are_counted() -> None:
    notes = [[rank, 2, 0] for rank in (0, 1)]
    found = of(pod(0, state=ended(0, {"trained": notes})), workers=0)
    assert found["world_size"] == 2


@pytest.mark.parametrize("trained", ["yes", [1, 2], [[]], [["a", "b"]], [[0, None]], {"0": 1}])
def test_invalid_training_reports_are_ignored(trained: object) -> None:
    """A program may report anything."""
    found = of(*(pod(rank, state=ended(0, {"trained": trained})) for rank in (0, 1)))
    assert "apart" not in found


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        (
            [{"cpu_seconds": 0.2}, {"cpu_seconds": 0.3}],
            ["it succeeded, but used only 0.5 s of CPU time"],
        ),
        ([{"cpu_seconds": 0.2}, {"cpu_seconds": 30}], []),
        ([{"cpu_seconds": 0.2}, {}], []),
        ([{"cpu_seconds": "x"}, {"cpu_seconds": 0.2}], []),
        ([{}, {"warning": "a process ended"}], ["rank 1: a process ended"]),
    ],
)
def test_a_successful_run_may_have_remarks(reports: list[dict[str, Any]], words: list[str]) -> None:
    ends = {f"rank {rank}": Exit(ended(0, each)["terminated"]) for rank, each in enumerate(reports)}
    found = [*remarks(ends, RunResult(state="Succeeded"))]
    assert [each[: len(word)] for each, word in zip(found, words, strict=True)] == words
    kept = RunResult(state="Succeeded", metrics={"val_loss": 0.1})
    assert not any("CPU time" in each for each in remarks(ends, kept))
