"""Each training job of the stack, as the cluster tells it and as the stack's outputs do."""

from typing import Any

import pytest

from tests.smoke.kubectl import Kubectl
from tests.smoke.objects import Pod, conditions, holds
from tests.smoke.test_cluster import JOBS


@pytest.fixture
def training_job(kubectl: Kubectl, job: str) -> dict[str, Any]:
    """The PyTorchJob object."""
    return kubectl.item("pytorchjob", job, "--namespace", JOBS)


@pytest.fixture
def pods(kubectl: Kubectl, job: str) -> list[Pod]:
    """The pods of all the job's ranks."""
    selector = f"training.kubeflow.org/job-name={job}"
    documents = kubectl.items("pods", "--namespace", JOBS, "--selector", selector)
    return [Pod(document) for document in documents]


def test_the_stack_reports_that_it_succeeded(result: dict[str, Any]) -> None:
    assert result["state"] == "Succeeded", result


def test_it_was_created_then_ran_then_succeeded(training_job: dict[str, Any]) -> None:
    passed_through = conditions(training_job)
    assert [entry.type for entry in passed_through] == ["Created", "Running", "Succeeded"]
    moments = [entry.since for entry in passed_through]
    assert moments == sorted(moments)
    assert holds(training_job, "Succeeded")


def test_every_rank_exited_with_zero(pods: list[Pod], result: dict[str, Any]) -> None:
    assert len(pods) == result["world_size"], [pod.name for pod in pods]
    assert {pod.name: pod.exit_codes for pod in pods} == {pod.name: {"pytorch": 0} for pod in pods}
    ranks = [str(rank) for rank in range(result["world_size"])]
    assert result["exit_codes"] == dict.fromkeys(ranks, 0)


def test_no_rank_was_started_again(pods: list[Pod]) -> None:
    assert {pod.name: pod.restarts for pod in pods} == {pod.name: 0 for pod in pods}
