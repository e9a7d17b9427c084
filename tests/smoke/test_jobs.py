"""Each training job of the stack, as the cluster tells it and as the stack's outputs do."""

from datetime import datetime
from typing import Any

import pytest

from jobs.model.pytorchjob import Topology
from tests.smoke.kubectl import Kubectl
from tests.smoke.objects import holds


@pytest.fixture
def training_job(kubectl: Kubectl, job: str, jobs: str) -> dict[str, Any]:
    """The PyTorchJob; `was` and `ttlSecondsAfterFinished` remove it, and its result stays."""
    where = ("--namespace", jobs, "--field-selector", f"metadata.name={job}")
    for found in kubectl.items("pytorchjobs", *where):
        return found
    pytest.skip(f"PyTorchJob {jobs}/{job} was removed")


@pytest.fixture
def pods(kubectl: Kubectl, jobs: str, training_job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The pods of all the job's replicas, by name, unless the operator removed some."""
    if (policy := training_job["spec"]["runPolicy"]["cleanPodPolicy"]) != "None":
        pytest.skip(f"cleanPodPolicy is {policy}")
    selector = f"training.kubeflow.org/job-name={training_job['metadata']['name']}"
    found = kubectl.items("pods", "--namespace", jobs, "--selector", selector)
    return {pod["metadata"]["name"]: pod for pod in found}


def test_the_stack_reports_that_it_succeeded(result: dict[str, Any]) -> None:
    assert result["state"] == "Succeeded", result


def test_it_was_created_then_ran_then_succeeded(training_job: dict[str, Any]) -> None:
    passed_through = training_job["status"]["conditions"]
    assert [each["type"] for each in passed_through] == ["Created", "Running", "Succeeded"]
    moments = [datetime.fromisoformat(each["lastTransitionTime"]) for each in passed_through]
    assert moments == sorted(moments)
    assert holds(training_job, "Succeeded")


def test_every_replica_exited_with_zero(
    training_job: dict[str, Any], pods: dict[str, dict[str, Any]], result: dict[str, Any]
) -> None:
    topology = Topology.of_object(training_job)
    assert len(pods) == topology.replicas, list(pods)
    codes = {
        (name, each["name"]): each["state"].get("terminated", {}).get("exitCode")
        for name, pod in pods.items()
        for each in pod["status"].get("containerStatuses", [])
    }
    assert codes == {(name, "pytorch"): 0 for name in pods}
    assert list(result["exit_codes"].values()) == [0] * topology.replicas
    assert result["world_size"] == topology.world_size


def test_its_pods_have_the_run_id_of_the_stacks_output(
    pods: dict[str, dict[str, Any]], result: dict[str, Any]
) -> None:
    runs = {pod["metadata"]["labels"]["slipway.dev/run"] for pod in pods.values()}
    assert runs == {result["run_id"]}


def test_no_replica_was_started_again(pods: dict[str, dict[str, Any]]) -> None:
    restarts = {
        (name, each["name"]): each["restartCount"]
        for name, pod in pods.items()
        for kind in ("containerStatuses", "initContainerStatuses")
        for each in pod["status"].get(kind, [])
    }
    assert restarts == dict.fromkeys(restarts, 0)
