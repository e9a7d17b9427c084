"""What a job is submitted with, besides what its declaration renders."""

from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from jobs.api.client import JobApi
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.parts import Drill
from jobs.model.pytorchjob import QUEUE_LABEL
from jobs.run.submit import HASH_LABEL, remove, submit
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.run.test_lifecycle import SUBMISSION, Quiet


class Empty:
    """A cluster that has no such job, and keeps what is submitted."""

    name, namespace = "mnist-gloo", "slipway-jobs"

    def get(self) -> dict[str, Any] | None:
        return None

    def create(self, submitted: dict[str, Any]) -> dict[str, Any]:
        return submitted


class There(Empty):
    """A cluster that has a job without pods, until it is deleted."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job: dict[str, Any] | None = job

    def get(self) -> dict[str, Any] | None:
        return self.job

    def pods(self) -> list[dict[str, Any]]:
        return []

    def patch(self, change: dict[str, Any]) -> None: ...

    def delete(self) -> None:
        self.job = None


def submitted() -> dict[str, Any]:
    return submit(cast("JobApi", Empty()), SUBMISSION, {}, Quiet())


def test_a_job_and_its_pods_have_the_same_run_id_and_every_submission_another() -> None:
    first, second = submitted(), submitted()
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
        submit(cast("JobApi", Empty()), drilled, {}, Quiet(), before)
        for before in ((), [{"number": 1}])
    )
    assert "SLIPWAY_DRILL" in str(first["spec"])
    assert "SLIPWAY_DRILL" not in str(again["spec"])
    labels = [each["metadata"]["labels"][HASH_LABEL] for each in (first, again)]
    assert labels == [drilled.digest()] * 2


def test_its_label_has_the_hash_of_what_can_alter_the_result() -> None:
    assert submitted()["metadata"]["labels"][HASH_LABEL] == SUBMISSION.digest()


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
    job = submit(cast("JobApi", There(existing)), now, {}, Quiet())
    assert (job["metadata"]["labels"][RUN_LABEL] == "earlier") == stays
    assert job["metadata"]["labels"][QUEUE_LABEL] == (queue if stays else wanted)


def test_a_jobs_age_is_by_the_api_servers_clock_which_may_be_another() -> None:
    created = datetime.fromisoformat("2030-01-01T00:00:00Z")
    api = FakeApi(clock=created.timestamp() + 90)
    api.says("GET", "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs", {"items": []})
    job = {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}
    with served(api):
        assert JobApi.connect(api.kubeconfig, "slipway-jobs", "mine").age(job) == 90


class OnLostNode(Empty):
    """A deleted job with a pod on each of two nodes, of which one can't tell that it has ended."""

    def __init__(self) -> None:
        metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.left = {
            node: {"metadata": {"name": node, **metadata}, "spec": {"nodeName": node}}
            for node in ("well", "lost")
        }
        self.forgotten: list[str] = []

    def delete(self) -> None: ...

    def pods(self) -> list[dict[str, Any]]:
        return list(self.left.values())

    def nodes(self) -> list[dict[str, Any]]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [{"metadata": {"name": "well"}, "status": ready}]

    def delete_pod(self, name: str, *, at_once: bool) -> None:
        assert at_once
        self.forgotten.append(name)
        self.left.clear()  # the other one ends by itself


def test_a_pod_whose_node_is_lost_is_given_up_and_the_others_are_waited_for() -> None:
    api = OnLostNode()
    remove(cast("JobApi", api), Quiet())
    assert api.forgotten == ["lost"]
