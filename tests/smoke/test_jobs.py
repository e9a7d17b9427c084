"""Each training job of the stack, as the cluster tells it and as the stack's outputs do."""

from typing import Any

import pytest

from jobs.model.pytorchjob import Topology
from tests.smoke.kubectl import Kubectl
from tests.smoke.objects import Pod, conditions, holds


@pytest.fixture
def training_job(kubectl: Kubectl, job: str, jobs: str) -> dict[str, Any]:
    """The PyTorchJob object."""
    return kubectl.item("pytorchjob", job, "--namespace", jobs)


@pytest.fixture
def pods(kubectl: Kubectl, job: str, jobs: str) -> list[Pod]:
    """The pods of all the job's replicas."""
    selector = f"training.kubeflow.org/job-name={job}"
    documents = kubectl.items("pods", "--namespace", jobs, "--selector", selector)
    return [Pod(document) for document in documents]


def test_the_stack_reports_that_it_succeeded(result: dict[str, Any]) -> None:
    assert result["state"] == "Succeeded", result


def test_it_was_created_then_ran_then_succeeded(training_job: dict[str, Any]) -> None:
    passed_through = conditions(training_job)
    assert [entry.type for entry in passed_through] == ["Created", "Running", "Succeeded"]
    moments = [entry.since for entry in passed_through]
    assert moments == sorted(moments)
    assert holds(training_job, "Succeeded")


def test_every_replica_exited_with_zero(
    training_job: dict[str, Any], pods: list[Pod], result: dict[str, Any]
) -> None:
    topology = Topology.of_object(training_job)
    assert len(pods) == topology.replicas, [pod.name for pod in pods]
    assert {pod.name: pod.exit_codes for pod in pods} == {pod.name: {"pytorch": 0} for pod in pods}
    assert list(result["exit_codes"].values()) == [0] * topology.replicas
    assert result["world_size"] == topology.world_size


def test_its_pods_have_the_run_id_of_the_stacks_output(
    pods: list[Pod], result: dict[str, Any]
) -> None:
    assert {pod.labels["slipway.dev/run"] for pod in pods} == {result["run_id"]}


def test_no_replica_was_started_again(pods: list[Pod]) -> None:
    assert {pod.name: pod.restarts for pod in pods} == {pod.name: 0 for pod in pods}
