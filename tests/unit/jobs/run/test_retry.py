"""A job that its cluster took away is submitted anew; what its program did wrong is not."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api.client import JobApi
from jobs.model.names import RUN_LABEL
from jobs.records.archive import Archive
from jobs.result import RunResult
from jobs.run import retry
from jobs.run.submit import submit
from jobs.run.train import Training
from tests.unit.images.objects import Listener
from tests.unit.jobs.run.test_lifecycle import SUBMISSION, Quiet
from tests.unit.jobs_objects import clock

SUCCEEDED: dict[str, Any] = {"state": "Succeeded", "reason": ""}
LOST: dict[str, Any] = {
    "state": "Failed",
    "reason": "rank 1 exited with code 143",
    "started": clock(0),
    "completed": clock(9),
    "duration_seconds": 9.0,
    "failure": {"disruption": "pod mnist-gloo-worker-0 was evicted", "log": []},
}
BROKEN: dict[str, Any] = {"state": "Failed", "reason": "rank 1 ran out of memory", "failure": {}}
_ONE_LOST = retry.with_ended([], RunResult.from_map(LOST), LOST["failure"]["disruption"])


@dataclass
class Cluster:
    """A cluster with room for one job: what was submitted, and what became of it."""

    name: str = "mnist-gloo"
    namespace: str = "slipway-jobs"
    job: dict[str, Any] | None = None
    submitted: list[dict[str, Any]] = field(default_factory=list)
    left: dict[str, dict[str, Any]] = field(default_factory=dict)

    def retrying(self, seconds: float) -> "Cluster":
        return self

    def get(self) -> dict[str, Any] | None:
        return self.job

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.job is None
        self.job = copy.deepcopy(job)
        self.job["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.submitted.append(self.job)
        self.left = {str(number): {"metadata": {"name": str(number)}} for number in range(4)}
        return self.job

    def patch(self, change: dict[str, Any], pod: str | None = None) -> None:
        if pod is not None:
            return  # Labels of pods are none of these tests' matter.
        assert self.job is not None
        told = change["metadata"].get("annotations", {})
        self.job["metadata"].setdefault("annotations", {}).update(told)

    def delete(self) -> None:
        self.job = None
        self.left = {}

    def pods(self) -> list[dict[str, Any]]:
        return list(self.left.values())

    def delete_pod(self, name: str) -> None:
        del self.left[name]

    def end(self, condition: str) -> None:
        assert self.job is not None
        self.job["status"] = {"conditions": [{"type": condition, "status": "True"}]}


Train = Callable[..., dict[str, Any]]


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Train:
    """Return the result of a run whose attempts end one after the other as told."""

    def made(
        cluster: Cluster,
        *ends: Mapping[str, Any],
        row: Listener | None = None,
        succeeded: str | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        coming = list(ends)

        class Ended:
            def __init__(self, *_: Any) -> None: ...

            def to_the_end(self) -> RunResult:
                assert cluster.job is not None
                end = dict(coming.pop(0))
                cluster.end(end.pop("condition", end["state"]))
                run_id = cluster.job["metadata"]["labels"][RUN_LABEL]
                return RunResult.from_map({**end, "run_id": run_id})

        monkeypatch.setattr("jobs.run.train.Wait", Ended)
        submission = replace(SUBMISSION, job=replace(SUBMISSION.job, **fields), succeeded=succeeded)
        logs = MagicMock(spec=Archive, directory=Path("/proc/nowhere"))
        api = cast("JobApi", cluster)
        result = Training(api, submission, {}, logs, row or Listener()).to_the_end().as_map()
        assert coming == []
        return result

    return made


def test_a_job_that_was_not_admitted_has_a_result_too(train: Train) -> None:
    cluster, error = Cluster(), ApiException(status=403)
    error.body = '{"message": "admission webhook denied the request"}'
    cluster.create = MagicMock(side_effect=error)  # type: ignore[method-assign]
    found = train(cluster, retries=2)
    assert found["state"] == "CannotStart"
    assert "refused: admission webhook denied" in found["reason"]
    assert found["world_size"] == 4


def test_a_lost_job_is_resubmitted_with_its_attempt(train: Train) -> None:
    cluster, row = Cluster(), Listener()
    result = train(cluster, LOST, SUCCEEDED, retries=2, row=row)
    assert result["state"] == "Succeeded"
    run_id = cluster.submitted[0]["metadata"]["labels"][RUN_LABEL]
    reason = "pod mnist-gloo-worker-0 was evicted"
    kept = {key: LOST[key] for key in ("state", "started", "completed", "duration_seconds")}
    assert result["attempts"] == [{"number": 1, "run_id": run_id, "reason": reason, **kept}]
    labels = [job["metadata"]["labels"][retry.LABEL] for job in cluster.submitted]
    assert labels == ["1", "2"]
    assert retry.earlier(cluster.submitted[1]) == result["attempts"]
    assert row.lines[0] == f"attempt 1 of 3 was lost: {reason}. Resubmitting"


@pytest.mark.parametrize(("end", "retries"), [(LOST, 0), (BROKEN, 2), (SUCCEEDED, 2)])
def test_what_a_retry_cannot_cure_is_not_tried_again(
    end: dict[str, Any], retries: int, train: Train
) -> None:
    cluster = Cluster()
    result = train(cluster, end, retries=retries)
    assert result.items() >= end.items()
    assert "attempts" not in result
    assert len(cluster.submitted) == 1


@pytest.mark.parametrize("retry_on", [("ownFailure",), ("lostNode", "ownFailure")])
def test_its_own_failure_is_tried_again_where_that_is_asked_for(
    retry_on: tuple[str, ...], train: Train
) -> None:
    row = Listener()
    result = train(Cluster(), BROKEN, SUCCEEDED, retries=1, retry_on=retry_on, row=row)
    [attempt] = result["attempts"]
    assert attempt["reason"] == BROKEN["reason"]
    assert row.lines[0].startswith(f"attempt 1 of 2 failed: {BROKEN['reason']}. ")


@pytest.mark.parametrize(
    "end", [LOST, {**BROKEN, "state": "TimedOut"}, {**BROKEN, "state": "CannotStart"}]
)
def test_no_lost_node_or_timeout_counts_as_its_own_failure(
    end: dict[str, Any], train: Train
) -> None:
    assert "attempts" not in train(Cluster(), end, retries=2, retry_on=("ownFailure",))


def test_a_lost_job_called_a_success_is_not_resumed(train: Train) -> None:
    cluster = Cluster()
    train(cluster, {**LOST, "condition": "Succeeded"}, SUCCEEDED, retries=1)
    assert len(cluster.submitted) == 2


def test_who_goes_on_with_a_second_knows_the_attempts(train: Train) -> None:
    cluster = Cluster()
    submit(cast("JobApi", cluster), SUBMISSION, {}, Quiet(), _ONE_LOST)
    assert train(cluster, SUCCEEDED, retries=2)["attempts"] == _ONE_LOST
    assert len(cluster.submitted) == 1


def test_who_finds_the_lost_job_knows_the_attempts(train: Train) -> None:
    cluster = Cluster()
    submit(cast("JobApi", cluster), SUBMISSION, {}, Quiet())
    cluster.end("Failed")
    cluster.patch({"metadata": {"annotations": retry.annotations(_ONE_LOST)}})
    result = train(cluster, SUCCEEDED, retries=2)
    assert [attempt["number"] for attempt in result["attempts"]] == [1]
    assert cluster.submitted[1]["metadata"]["labels"][retry.LABEL] == "2"


def test_the_attempts_of_another_declaration_are_forgotten(train: Train) -> None:
    cluster = Cluster()
    other = replace(SUBMISSION, job=replace(SUBMISSION.job, epochs=2))
    submit(cast("JobApi", cluster), other, {}, Quiet(), _ONE_LOST)
    cluster.end("Failed")
    assert "attempts" not in train(cluster, SUCCEEDED, retries=2)


def test_attempts_and_results_know_the_last_success(train: Train) -> None:
    """By that the pods keep its files, and `make fetch RUN=succeeded` finds them."""
    cluster, last = Cluster(), "mnist-gloo-20260101-000000-aaaa"
    result = train(cluster, LOST, LOST, succeeded=last, retries=1)
    assert (result["state"], [each["number"] for each in result["attempts"]]) == ("Failed", [1])
    assert result["last_succeeded"] == last
    for job in cluster.submitted:
        roles = job["spec"]["pytorchReplicaSpecs"]
        pods = {role: each["template"]["spec"]["containers"][0] for role, each in roles.items()}
        assert {"name": "SLIPWAY_SUCCEEDED", "value": last} in pods["Master"]["env"]
        assert "SLIPWAY_SUCCEEDED" not in str(pods["Worker"]), "which keeps nothing"
    assert "last_succeeded" not in train(Cluster(), SUCCEEDED)


@pytest.mark.parametrize("ends", [[BROKEN], [LOST, BROKEN]])
def test_whoever_goes_on_with_a_job_learns_from_it_which_run_succeeded_last(
    ends: list[Mapping[str, Any]], train: Train
) -> None:
    cluster = Cluster()
    submit(cast("JobApi", cluster), replace(SUBMISSION, succeeded="run-0"), {}, Quiet())
    result = train(cluster, *ends, retries=1)
    assert result["last_succeeded"] == "run-0"
    assert len(cluster.submitted) == len(ends)


def _told(**fields: Any) -> RunResult:
    times = {"started": clock(0, 1), "completed": clock(0, 2)}
    return RunResult.from_map({**SUCCEEDED, "run_id": "run-2", **times, **fields})


def test_goodput_is_the_time_in_steps_that_stayed_over_that_of_all_attempts() -> None:
    before = [{"number": 1, "run_id": "run-1", "started": clock(0)}]
    steps = {"run-0": 500.0, "run-1": 20.0, "run-2": 40.0}
    assert retry.complete(_told(step_seconds=steps), before, None).goodput == 0.5
    assert retry.complete(_told(step_seconds=steps), [], None).goodput == 0.667
    assert retry.complete(_told(), [], None).goodput is None
    failed = _told(state="Failed", step_seconds={"run-2": 1.0})
    assert retry.complete(failed, [], None).goodput is None
