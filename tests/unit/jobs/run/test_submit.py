"""What a job is submitted with besides its manifest, and how runs are stopped at the end."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from jobs.api.client import JobApi
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.parts import Drill
from jobs.model.pytorchjob import QUEUE_LABEL
from jobs.run.submit import HASH_LABEL, remove, stop_all, submit
from tests.unit.clusters.operator.test_operator_ready import JOBS
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.run.test_lifecycle import SUBMISSION, Quiet
from tests.unit.jobs.run.test_retry import Cluster
from tests.unit.jobs_objects import clock, node


def submitted() -> dict[str, Any]:
    return submit(cast("JobApi", Cluster()), SUBMISSION, {}, Quiet())


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
    drill = Drill(rank=1, step=100, within=60)
    drilled = replace(SUBMISSION, job=replace(SUBMISSION.job, drill=drill, backoff_limit=9))
    first, again = (
        submit(cast("JobApi", Cluster()), drilled, {}, Quiet(), before)
        for before in ((), [{"number": 1}])
    )
    assert "SLIPWAY_DRILL" in str(first["spec"])
    assert "SLIPWAY_DRILL" not in str(again["spec"])
    labels = [each["metadata"]["labels"][HASH_LABEL] for each in (first, again)]
    assert labels == [drilled.digest()] * 2


@pytest.mark.parametrize(
    ("suspended", "queue", "wanted", "stays"),
    [
        (True, "reserch", "research", False),
        (False, "reserch", "research", True),
        (True, "research", "research", True),
        (True, "default", None, True),
    ],
    ids=["waits in another queue", "runs", "waits in this queue", "waits in Kueue's default"],
)
def test_a_job_suspended_in_another_queue_is_resubmitted(
    suspended: bool, queue: str, wanted: str | None, stays: bool
) -> None:
    """One whose queue does not exist would be waited for without end."""
    there, now = (
        replace(SUBMISSION, job=replace(SUBMISSION.job, queue=each)) for each in (queue, wanted)
    )
    labels = {HASH_LABEL: there.digest(), RUN_LABEL: "earlier"}
    existing = manifest(there, labels=labels)
    existing["spec"]["runPolicy"]["suspend"] = suspended
    job = submit(cast("JobApi", Cluster(job=existing)), now, {}, Quiet())
    assert (job["metadata"]["labels"][RUN_LABEL] == "earlier") == stays
    assert job["metadata"]["labels"][QUEUE_LABEL] == (queue if stays else wanted)


def test_a_jobs_age_is_by_the_api_servers_clock_which_may_be_another() -> None:
    created = datetime.fromisoformat("2030-01-01T00:00:00Z")
    api = FakeApi(clock=created.timestamp() + 90)
    api.says("GET", "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs", {"items": []})
    job = {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}
    with served(api):
        assert JobApi.connect(api.kubeconfig, "slipway-jobs", "mine").age(job) == 90


class OnLostNode(Cluster):
    """A deleted job with a pod on each of two nodes, of which one can't tell that it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[str] = []
        for name in ("well", "lost"):
            metadata = {"name": name, "deletionTimestamp": clock(0)}
            self.left[name] = {"metadata": metadata, "spec": {"nodeName": name}}

    def delete(self) -> None: ...

    def nodes(self) -> list[dict[str, Any]]:
        return [node("well")]

    def delete_pod(self, name: str, *, at_once: bool = False) -> None:
        assert at_once
        self.forgotten.append(name)
        self.left.clear()  # the other one ends by itself


def test_a_pod_whose_node_is_lost_is_given_up_and_the_others_are_waited_for() -> None:
    api = OnLostNode()
    remove(cast("JobApi", api), Quiet())
    assert api.forgotten == ["lost"]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as answering:
        yield answering


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(
        "jobs.run.submit.remove", lambda job, _: names.append(f"{job.namespace}/{job.name}")
    )
    return names


def test_every_job_that_is_there_is_stopped_and_named(api: FakeApi, removed: list[str]) -> None:
    api.says("GET", JOBS, {"items": [{"metadata": {"name": name}} for name in ("b", "a")]})
    row = Quiet()
    stop_all(api.kubeconfig, "slipway-jobs", row)
    assert sorted(removed) == ["slipway-jobs/a", "slipway-jobs/b"]
    assert row.said == ["stopping what an interrupted run left behind: a, b"]


def test_without_jobs_nothing_is_printed(api: FakeApi, removed: list[str]) -> None:
    row = Quiet()
    stop_all(api.kubeconfig, "slipway-jobs", row)  # 404: there is not even the kind
    api.says("GET", JOBS, {"items": []})
    stop_all(api.kubeconfig, "slipway-jobs", row)
    assert (removed, row.said) == ([], [])


def test_a_refusal_of_the_api_server_is_passed_on(api: FakeApi) -> None:
    api.says("GET", JOBS, {"kind": "Status", "message": "jobs is forbidden"}, status=403)
    with pytest.raises(RuntimeError, match="slipway-jobs: jobs is forbidden"):
        stop_all(api.kubeconfig, "slipway-jobs", Quiet())


def test_an_unreachable_cluster_blocks_it(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = api.kubeconfig.replace(api.kubeconfig.split("127.0.0.1:")[1].split()[0], "1")
    with pytest.raises(RuntimeError, match="set PULUMI_K8S_DELETE_UNREACHABLE=true"):
        stop_all(gone, "slipway-jobs", Quiet())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    stop_all(gone, "slipway-jobs", Quiet())
