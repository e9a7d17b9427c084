"""A run's result comes from its ranks' termination messages, whatever these hold."""

import math
from typing import Any

import pytest

from jobs.observe.outcome import remarks, result
from jobs.result import End, RunResult
from tests.unit.jobs_objects import clock, done, ended, job, pod, runs, seen, summary


def of(*pods: dict[str, Any], **shape: Any) -> dict[str, Any]:
    run = seen(job("Succeeded", **shape), *pods)
    return result(End("Succeeded", ""), run, seen_at="2026-01-01T01:00:00Z").as_map()


def alone(told: object) -> dict[str, Any]:
    """Return the result of a run whose only rank reports this."""
    return of(pod(0, state=ended(0, told)), workers=0)


def test_a_result_has_rank_0s_figures_all_ranks_samples_and_the_jobs_times() -> None:
    found = of(done(0), done(1, accuracy=0.1, epoch_accuracies=[0.1]))
    assert found["accuracy"] == 0.97
    assert found["epoch_accuracies"] == [0.9, 0.97]
    assert (found["backend"], found["dataset"], found["world_size"]) == ("gloo", "mnist", 2)
    assert found["training_seconds"] == 33.25
    assert (found["started"], found["completed"]) == (clock(1), clock(1, 1))
    assert (found["duration_seconds"], found["samples_seen"]) == (60, 60_000)
    other = of(pod(0, state=ended(0)), pod(1, state=ended(0, {"accuracy": 0.1})))
    assert "accuracy" not in other


def test_figures_of_any_name_are_kept_and_nothing_else_is() -> None:
    told = {"metrics": {"val_loss": 0.31, "note": "text", "best": True}, "perplexity": 12.4}
    found = alone({**told, "lr": None, "curve": [1, 2], "samples_seen": 5, "rank": 0})
    assert found["metrics"] == {"perplexity": 12.4, "val_loss": 0.31}
    assert "metrics" not in alone(summary(0))
    assert str(RunResult.from_map(found)) == "Succeeded in 60 s, perplexity 12.4, val_loss 0.31"


def test_each_figure_has_its_history_and_what_is_no_figure_is_left_out() -> None:
    told = {"val_loss": [0.5, None, "0.4", 0.31], "note": ["a"], "single": 3, "long": [1] * 1001}
    assert alone(summary(0, epoch_metrics=told))["epoch_metrics"] == {
        "accuracy": [0.9, 0.97], "val_loss": [0.5, 0.31], "long": [1] * 1000
    }  # fmt: skip
    own = {"metrics": {"accuracy": 0.98, "loss": 0.1}, "epoch_metrics": {"accuracy": [0.5, 0.98]}}
    found = alone(own)
    assert (found["accuracy"], found["loss"]) == (0.98, 0.1)
    assert found["epoch_accuracies"] == [0.5, 0.98]
    assert "metrics" not in found


def test_what_a_message_lacks_comes_from_the_log_of_its_replica() -> None:
    cut = {"accuracy": 0.97, "epoch_metrics": {"a": [2]}, "cut": ["epoch_metrics"]}
    run = seen(job("Succeeded", workers=0), pod(0, state=ended(0, cut)))

    def found(**logged: Any) -> RunResult:
        return result(End("Succeeded", ""), run, clock(0), full_message={0: logged}.__getitem__)

    assert found(epoch_metrics={"a": [1, 2]}).epoch_metrics == {"a": [1, 2]}
    assert (found().accuracy, found().epoch_metrics) == (0.97, {"a": [2]})
    odd = found(accuracy=math.nan)
    assert (odd.accuracy, odd.left_out) == (None, {"accuracy": "NaN"}), "no gate lets it pass"


@pytest.mark.parametrize("last", [ended(0), ended(1, summary(1))], ids=["silent", "failed"])
def test_a_missing_summary_leaves_the_sum_unknown_instead_of_too_small(last: Any) -> None:
    """What a failed rank reports does not count as trained."""
    found = of(done(0), pod(1, state=last))
    assert "samples_seen" not in found
    assert found["accuracy"] == 0.97


@pytest.mark.parametrize(
    ("pods", "codes", "restarts"),
    [
        ([pod(2, state=ended(143)), pod(1, state=ended(3)), done(0)], [0, 3, 143], 0),
        ([done(0), pod(1, state=ended(0), last=ended(1), restarts=1)], [0, 0], 1),
        ([runs(0), runs(1, last=ended(3), restarts=1)], [None, 3], 1),
        ([runs(0), pod(1, state=ended(3)), pod(1, created=clock(30))], [None, 3], 0),
        ([pod(1, state=ended(0), created=clock(30)), pod(1), done(0)], [0, 0], 0),
    ],
    ids=["worker i is rank i + 1", "restarted", "runs again", "is replaced", "was replaced"],
)
def test_a_rank_counts_with_its_last_exit(
    pods: list[dict[str, Any]], codes: list[int | None], restarts: int
) -> None:
    found = of(*pods, workers=2)
    known = {str(rank): code for rank, code in enumerate(codes) if code is not None}
    assert (found["exit_codes"], found["restarts"]) == (known, restarts)


def test_several_processes_in_a_replica_are_several_ranks() -> None:
    found = of(done(0, samples=40_000), done(1, samples=20_000), processes=2)
    assert (found["world_size"], found["samples_seen"]) == (4, 60_000)
    assert found["exit_codes"] == {"0-1": 0, "2-3": 0}


def test_in_an_elastic_job_any_replica_may_have_been_rank_0_and_the_ledger_counts() -> None:
    found = of(
        runs(0, last=ended(137), restarts=1, master=False),
        pod(1, state=ended(0, summary(0, total_samples_seen=60_000)), master=False),
        pod(2, state=ended(0, summary(1, accuracy=0.1)), master=False),
        workers=3,
        elastic=True,
    )
    assert found["world_size"] == 3
    assert (found["accuracy"], found["samples_seen"]) == (0.97, 60_000)
    assert found["exit_codes"] == {"0": 137, "1": 0, "2": 0}


GOOD = {"model.pt": {"url": "file:///model.pt", "sha256": "0" * 64, "bytes": 1}}


@pytest.mark.parametrize(
    ("name", "reported", "kept"),
    [
        ("accuracy", "0.98", None),
        ("accuracy", True, None),
        ("step_seconds", {"run-1": 3.5, "run-2": "long"}, {"run-1": 3.5}),
        ("step_seconds", [1], None),
        ("tracking", ["x"], None),
        # Inputs of other jobs need each file's URL and hash.
        ("artifacts", {**GOOD, "bad": {}}, GOOD),
        ("artifacts", ["model.pt"], None),
        ("artifacts", {"model.pt": "there"}, None),
        ("artifacts", {"model.pt": {"url": 3}}, None),
    ],
)
def test_of_what_is_reported_only_values_of_the_right_kind_are_kept(
    name: str, reported: Any, kept: object
) -> None:
    assert alone(summary(0, **{name: reported})).get(name) == kept


def test_the_tracked_run_is_named_by_any_replica_also_when_the_run_failed() -> None:
    page = "http://localhost:5000/#/experiments/1/runs/ab"
    failed = ended(1, {"rank": 1, "error": "ValueError: x", "tracking": page})
    assert of(runs(0), pod(1, state=failed))["tracking"] == page


def trained(*notes: object, **shape: Any) -> dict[str, Any]:
    """Return the result of ranks that report these worlds that they trained in."""
    return of(*(done(rank, trained=each) for rank, each in enumerate(notes)), **shape)


def test_ranks_that_trained_apart_are_in_the_result_of_a_job_of_a_fixed_size() -> None:
    apart = [[0, 1]], [[1, 1]]
    assert trained(*apart)["apart"] == {"ranks": 2, "worlds": 2, "largest": 1, "met": False}
    assert "apart" not in trained([[0, 2, 0]], [[1, 2, 0]])
    assert "apart" not in trained(*apart, workers=2, elastic=True)
    assert "apart" not in trained(apart[0], workers=0)
    launched = trained([[0, 2, 0], [1, 2, 0]], workers=0)
    assert launched["world_size"] == 2, "those that its own launcher started are counted"
    for odd in ("yes", [1, 2], [["a", "b"]], [[0, None]]):
        assert "apart" not in trained(odd, odd)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([{"cpu_seconds": 0.2}, {"cpu_seconds": 0.3}], ["the run succeeded, but used only 0.5 s "]),
        ([{"cpu_seconds": 0.2}, {"cpu_seconds": 30}], []),
        ([{"cpu_seconds": 0.2}, {}], []),
        ([{"cpu_seconds": "x"}, {"cpu_seconds": 0.2}], []),
        ([{}, {"warning": "a process ended"}], ["rank 1 (mine-worker-0): a process ended"]),
    ],
)
def test_a_successful_run_may_have_remarks(reports: list[dict[str, Any]], words: list[str]) -> None:
    pods = (pod(rank, state=ended(0, each)) for rank, each in enumerate(reports))
    run = seen(job("Succeeded"), *pods)
    found = [*remarks(run, RunResult(state="Succeeded"))]
    assert [each[: len(word)] for each, word in zip(found, words, strict=True)] == words
    kept = RunResult(state="Succeeded", metrics={"val_loss": 0.1})
    assert not any("CPU time" in each for each in remarks(run, kept))
    assert not [*remarks(run, RunResult(state="Failed"))]
