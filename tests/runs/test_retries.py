"""Retries: a job that its cluster takes away is submitted anew, and its attempts are kept."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from clusters.cluster import JOBS
from core.fields import cores
from core.manifests import KEPT_CLAIM
from jobs.model import volumes
from jobs.model.names import CONTAINER
from tests.engine.job_programs import HUNGRY, RESUMING, SLEEPING, SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_VICTIM, _INTRUDER = "slipway-test-victim", "slipway-test-intruder"
_PRIORITIES = {_VICTIM: -20, _INTRUDER: -10}
"""Below that of any other pod, so that only the test's own have to make room."""


def test_an_evicted_job_is_resubmitted_and_its_attempt_is_kept(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A job that the cluster disrupted is resubmitted.

    Every attempt is kept, also across a kill of the CLI.
    """
    with runs.training(job_name, **python(trainer, SLEEPING, "20", retries=2)) as going:
        jobs.await_all_running(job_name, pods=2)
        (first,) = jobs.uids(job_name)
        jobs.evict(f"{job_name}-worker-0")
        assert going.end().error is None, going.text
    result = runs.output(job_name)
    assert result["state"] == "Succeeded"
    (attempt,) = result["attempts"]
    assert (attempt["number"], attempt["state"]) == (1, "Failed")
    assert f"{job_name}-worker-0" in attempt["reason"]
    assert "EvictionByEvictionAPI" in attempt["reason"]
    assert attempt["run_id"] != result["run_id"]
    assert jobs.uids(job_name) != [first]
    assert jobs.attempts(job_name) == ["2"]
    assert "attempt 1 of 3 was lost" in going.text
    assert "attempt 2 of 3: 2 ranks" in going.text


@pytest.mark.long
def test_without_retries_an_evicted_job_fails_and_says_what_happened(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    with runs.training(job_name, **python(trainer, SLEEPING, "20")) as going:
        jobs.await_all_running(job_name, pods=2)
        jobs.evict(f"{job_name}-worker-0")
        assert going.end().error is not None
    result = runs.output(job_name)
    assert result["state"] == "Failed"
    assert "EvictionByEvictionAPI" in result["failure"]["disruption"]
    assert "attempts" not in result
    assert jobs.attempts(job_name) == ["1"]


def test_what_the_program_did_wrong_is_not_tried_again(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """What the program did wrong, running out of memory included, is not tried again."""
    declared = python(trainer, HUNGRY, memory="96Mi", retries=2)
    said = runs.train_in_vain(job_name, **declared)
    assert "Resubmitting" not in said
    result = runs.output(job_name)
    assert result["state"] == "Failed"
    assert "attempts" not in result
    assert jobs.attempts(job_name) == ["1"]


@pytest.fixture
def kept_volume(jobs: Jobs) -> Iterator[None]:
    """The stack's volume for kept files, which its runs' handlers do not make."""
    claim = volumes.claim(KEPT_CLAIM, JOBS, "1Gi")
    jobs.kubectl("apply", "--filename", "-", given=json.dumps(claim))
    yield
    jobs.kubectl("delete", "--filename", "-", "--wait=false", given=json.dumps(claim))


@pytest.mark.usefixtures("kept_volume")
def test_a_job_that_fails_resumes_in_a_retry_and_in_the_next_up(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """A job that failed by itself is tried again where `retryOn` says so.

    Each attempt and the next `up` resume from its checkpoint.
    """
    command = ["python3", "-m", "slipway_trainer.launch", "--", "-c", RESUMING]
    declared = python(trainer, "", workers=0, memory="640Mi") | {"command": command, "args": []}
    declared |= {"retries": 1, "retryOn": ["ownFailure"], "checkpoint": {"every": "1 step"}}
    declared |= {"restartPolicy": "Never"}  # or the kubelet may be quicker than the operator
    said = runs.train_in_vain(job_name, **declared)
    assert "attempt 1 of 2 failed: rank 0" in said
    assert len(runs.output(job_name)["attempts"]) == 1

    attempt = runs.train(job_name, **declared)
    assert "it resumes from its newest checkpoint" in attempt.text
    result = runs.output(job_name)
    assert result["metrics"] == {"began_at": 4, "attempts": 3}
    assert "attempts" not in result


@pytest.fixture
def intruder(job_name: str, jobs: Jobs) -> Iterator[str]:
    """The name of a pod that a test may start, for which others have to make room."""
    items = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in _PRIORITIES.items()
    ]
    classes = {"apiVersion": "v1", "kind": "List", "items": items}
    jobs.kubectl("apply", "--filename", "-", given=json.dumps(classes))
    yield f"{job_name}-intruder"
    jobs.kubectl("delete", "pod", f"{job_name}-intruder", "--ignore-not-found", "--wait")
    jobs.kubectl("delete", "priorityclass", *_PRIORITIES)


def _free_cores(jobs: Jobs) -> Decimal:
    """Return the cores of the node that no pod asks for."""
    nodes = json.loads(jobs.kubectl("get", "nodes", "--output", "json"))["items"]
    (node,) = nodes
    pods = json.loads(jobs.kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]
    asked = [
        cores(container["resources"]["requests"]["cpu"])
        for pod in pods
        if pod["status"]["phase"] in {"Pending", "Running"}
        for container in pod["spec"]["containers"]
        if "cpu" in container["resources"].get("requests", {})
    ]
    return cores(node["status"]["allocatable"]["cpu"]) - sum(asked)


def _milli(cores: Decimal) -> str:
    return f"{int(cores * 1000)}m"


def _pod(name: str, image: str, cpu: str) -> dict[str, Any]:
    """Return a pod that needs some cores for some seconds."""
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["sleep", "15"],
        "resources": {"requests": {"cpu": cpu}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "slipway-jobs"},
        "spec": {
            "priorityClassName": _INTRUDER,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


@pytest.mark.long
def test_a_preempted_job_is_resubmitted(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str, intruder: str
) -> None:
    half = _free_cores(jobs) / 2
    summary = ('{"accuracy": 0.5}', "25")
    asked: dict[str, Any] = {
        "cpu": _milli(half),
        "workers": 0,
        "retries": 1,
        "priorityClass": _VICTIM,
    }
    asked["restartPolicy"] = "Never"  # Otherwise one pod alone is replaced, and nothing is lost.
    with runs.training(job_name, **python(trainer, SUMMARY, *summary, **asked)) as going:
        jobs.await_all_running(job_name, pods=1)
        # More than is free, and not more than is free without the job.
        pod = _pod(intruder, trainer, _milli(_free_cores(jobs) + half / 2))
        jobs.kubectl("apply", "--filename", "-", given=json.dumps(pod))
        assert going.end().error is None, going.text
    result = runs.output(job_name)
    assert result["state"] == "Succeeded"
    (attempt,) = result["attempts"]
    assert "PreemptionByScheduler" in attempt["reason"]
    assert "attempt 1 of 2 was lost" in going.text
