"""Jobs are submitted, submitted again after a disruption, and stopped at the end."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock, patch

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api.client import JobApi
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.parts import Drill
from jobs.model.pytorchjob import QUEUE_LABEL
from jobs.model.submission import Submission
from jobs.observe.verdict import REMOVED
from jobs.plan import TrainingCost
from jobs.records.archive import Archive
from jobs.result import RunResult
from jobs.run import retry
from jobs.run.submit import HASH_LABEL, remove, stop_all, submit
from jobs.run.train import Training
from tests.unit.clusters.operator.test_operator_ready import JOBS
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.run.test_lifecycle import SUBMISSION, Quiet
from tests.unit.jobs_objects import clock, node

DISRUPTION = "pod mnist-gloo-worker-0 was evicted"
SUCCEEDED: dict[str, Any] = {"state": "Succeeded", "reason": ""}
LOST: dict[str, Any] = {
    "state": "Failed",
    "reason": "rank 1 exited with code 143",
    "failure": {"disruption": DISRUPTION, "log": []},
}
BROKEN: dict[str, Any] = {"state": "Failed", "reason": "rank 1 ran out of memory", "failure": {}}
_ONE_LOST = retry.with_ended([], RunResult.from_map(LOST), DISRUPTION)


@dataclass
class Cluster:
    """A cluster with room for one job: what was submitted, and what became of it."""

    name: str = "mnist-gloo"
    namespace: str = "slipway-jobs"
    job: dict[str, Any] | None = None
    submitted: list[dict[str, Any]] = field(default_factory=list)
    left: dict[str, dict[str, Any]] = field(default_factory=dict)
    note: Any = None

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


def submitted(
    cluster: "Cluster | None" = None,
    submission: Submission = SUBMISSION,
    before: Sequence[retry.Attempt] = (),
) -> dict[str, Any]:
    return submit(cast("JobApi", cluster or Cluster()), submission, {}, Quiet(), before)


def declared(**fields: Any) -> Submission:
    return replace(SUBMISSION, job=replace(SUBMISSION.job, **fields))


def test_a_job_and_its_pods_have_the_same_run_id_and_every_submission_another() -> None:
    """Another label has the hash of what can alter the result."""
    first, second = submitted(), submitted()
    assert first["metadata"]["labels"][HASH_LABEL] == SUBMISSION.digest()
    run = first["metadata"]["labels"][RUN_LABEL]
    assert run.startswith("mnist-gloo-")
    assert len(run) <= 63
    for replicas in first["spec"]["pytorchReplicaSpecs"].values():
        assert replicas["template"]["metadata"]["labels"][RUN_LABEL] == run
    assert second["metadata"]["labels"][RUN_LABEL] != run


def test_only_the_first_attempt_is_drilled() -> None:
    drilled = declared(drill=Drill(rank=1, step=100, within=60), backoff_limit=9)
    first, again = (submitted(None, drilled, before) for before in ((), [{"number": 1}]))
    assert "SLIPWAY_DRILL" in str(first["spec"])
    assert "SLIPWAY_DRILL" not in str(again["spec"])
    labels = [each["metadata"]["labels"][HASH_LABEL] for each in (first, again)]
    assert labels == [drilled.digest()] * 2


@pytest.mark.parametrize(
    ("suspended", "queue", "wanted", "stays"),
    [
        (True, "reserch", "research", False),
        (False, "reserch", "research", True),
        (True, "default", None, True),
    ],
    ids=["waits in another queue", "runs", "waits in Kueue's default"],
)
def test_a_job_suspended_in_another_queue_is_resubmitted(
    suspended: bool, queue: str, wanted: str | None, stays: bool
) -> None:
    """One whose queue does not exist would be waited for without end."""
    there, now = declared(queue=queue), declared(queue=wanted)
    labels = {HASH_LABEL: there.digest(), RUN_LABEL: "earlier"}
    existing = manifest(there, labels=labels)
    existing["spec"]["runPolicy"]["suspend"] = suspended
    job = submitted(Cluster(job=existing), now)
    assert (job["metadata"]["labels"][RUN_LABEL] == "earlier") == stays
    assert job["metadata"]["labels"][QUEUE_LABEL] == (queue if stays else wanted)


@pytest.mark.parametrize(
    ("end", "retry_on", "reason"),
    [
        (LOST, ["lostNode"], DISRUPTION),
        (LOST, ["lostNode", "ownFailure"], DISRUPTION),
        (LOST, ["ownFailure"], None),
        (BROKEN, ["lostNode"], None),
        (BROKEN, ["lostNode", "ownFailure"], BROKEN["reason"]),
        ({**BROKEN, "state": "TimedOut"}, ["ownFailure"], None),
        ({**BROKEN, "state": "CannotStart"}, ["ownFailure"], None),
        ({**LOST, "reason": REMOVED.reason}, ["lostNode", "ownFailure"], None),
        (SUCCEEDED, ["lostNode", "ownFailure"], None),
    ],
)
def test_what_retry_on_names_is_retried(
    end: dict[str, Any], retry_on: list[str], reason: str | None
) -> None:
    """No disruption or limit of time counts as a failure of its own, and no deletion as either."""
    assert retry.curable(RunResult.from_map(end), retry_on) == reason


def train(
    cluster: Cluster, *ends: Mapping[str, Any], succeeded: str | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the result of a run whose attempts end one after the other as told."""
    coming = [dict(each) for each in ends]

    def to_the_end() -> RunResult:
        assert cluster.job is not None
        end, run_id = coming.pop(0), cluster.job["metadata"]["labels"][RUN_LABEL]
        cluster.end(end.pop("condition", end["state"]))
        return RunResult.from_map({**end, "run_id": run_id})

    submission = replace(declared(**fields), succeeded=succeeded)
    logs = MagicMock(spec=Archive, directory=Path("/proc/nowhere"))
    api, cost = cast("JobApi", cluster), TrainingCost(1, 2, 1.8, "USD")
    with patch("jobs.run.train.Wait") as wait:
        wait.return_value.to_the_end = to_the_end
        training = Training(api, submission, {}, logs, Quiet(), cost, note=cluster.note)
        result = training.to_the_end()
        assert cost in wait.call_args.args, "for GPUs that idle"
    assert coming == []
    return result.as_map()


def test_a_lost_job_called_a_success_is_not_resumed_and_a_waiter_notes_when_it_may_be_gone() -> (
    None
):
    cluster, noted = Cluster(), list[tuple[str, int]]()
    cluster.note = lambda submitted: noted.append((submitted, len(cluster.submitted)))
    train(cluster, {**LOST, "condition": "Succeeded"}, SUCCEEDED, retries=1)
    assert noted == [("false", 0), ("true", 1), ("false", 1), ("true", 2)]


def test_another_process_reads_the_attempts_from_the_job() -> None:
    second = Cluster()
    submitted(second, before=_ONE_LOST)
    assert train(second, SUCCEEDED, retries=2)["attempts"] == _ONE_LOST
    assert len(second.submitted) == 1
    lost = Cluster()
    submitted(lost)
    lost.end("Failed")
    lost.patch({"metadata": {"annotations": retry.annotations(_ONE_LOST)}})
    assert train(lost, SUCCEEDED, retries=2)["attempts"] == _ONE_LOST
    assert lost.submitted[1]["metadata"]["labels"][retry.LABEL] == "2"


def test_the_attempts_of_another_declaration_are_forgotten() -> None:
    cluster = Cluster()
    submitted(cluster, declared(epochs=2), _ONE_LOST)
    cluster.end("Failed")
    assert "attempts" not in train(cluster, SUCCEEDED, retries=2)


def test_attempts_and_results_know_the_last_success() -> None:
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
    adopted = Cluster()
    submitted(adopted, replace(SUBMISSION, succeeded=last))
    assert train(adopted, LOST, BROKEN, retries=1)["last_succeeded"] == last
    assert len(adopted.submitted) == 2


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


def test_a_jobs_age_is_by_the_api_servers_clock_which_may_be_another() -> None:
    created = datetime.fromisoformat("2030-01-01T00:00:00Z")
    api = FakeApi(clock=created.timestamp() + 90)
    api.says("GET", JOBS, {"items": []})
    job = {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}
    with served(api):
        assert JobApi.connect(api.kubeconfig, "slipway-jobs", "mine").age(job) == 90


@pytest.mark.parametrize("refusal", [None, ApiException(status=403)])
def test_a_pod_whose_node_is_lost_is_given_up_and_the_others_are_waited_for(
    refusal: ApiException | None,
) -> None:
    """A waiter, which may not read nodes, knows it by what removed the pod."""
    left: list[dict[str, Any]] = [
        {"metadata": {"name": name, "deletionTimestamp": clock(0)}, "spec": {"nodeName": name}}
        for name in ("well", "lost")
    ]
    removed = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    left[1]["status"] = {"conditions": [removed]}
    api = MagicMock(spec=JobApi)
    api.namespace, api.name = "slipway-jobs", "mine"
    api.get.return_value = None
    api.nodes.side_effect = refusal or [[node("well")]]
    api.pods.side_effect = lambda: [*left]
    api.delete_pod.side_effect = lambda *_, **__: left.clear()  # the other one ends by itself
    remove(api, Quiet())
    api.delete_pod.assert_called_once_with("lost", at_once=True)


def test_at_the_end_every_job_is_stopped_unless_the_cluster_refuses_or_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, stopped = Quiet(), list[str]()
    monkeypatch.setattr("jobs.run.submit.remove", lambda job, _: stopped.append(job.name))
    with served(FakeApi()) as api:
        stop_all(api.kubeconfig, "slipway-jobs", row)  # 404: there is not even the kind
        api.says("GET", JOBS, {"items": []})
        stop_all(api.kubeconfig, "slipway-jobs", row)
        assert (stopped, row.said) == ([], [])
        api.says("GET", JOBS, {"items": [{"metadata": {"name": name}} for name in ("b", "a")]})
        stop_all(api.kubeconfig, "slipway-jobs", row)
        assert sorted(stopped) == ["a", "b"]
        assert row.said == ["stopping what an interrupted run left behind: a, b"]
        api.says("GET", JOBS, {"kind": "Status", "message": "jobs is forbidden"}, status=403)
        with pytest.raises(RuntimeError, match="slipway-jobs: jobs is forbidden"):
            stop_all(api.kubeconfig, "slipway-jobs", row)
    with pytest.raises(RuntimeError, match="set PULUMI_K8S_DELETE_UNREACHABLE=true"):
        stop_all(api.kubeconfig, "slipway-jobs", row)
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    stop_all(api.kubeconfig, "slipway-jobs", row)
