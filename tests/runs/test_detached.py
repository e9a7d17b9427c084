"""Runs that a waiter in the cluster waits for, whoever looks, and whatever is killed."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from clusters.cluster import JOBS
from jobs.records import archive
from tests.engine import procfs
from tests.engine.awaiting import await_true
from tests.engine.embedded_cluster import TestCluster, bring_in_waiter, restricted_pod
from tests.engine.job_programs import FAILING, SLEEPING, enough, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_KILLS = 20
_SEED = 20261126


@pytest.fixture(scope="module")
def waiter(own_cluster: TestCluster, trainer: str) -> str:  # noqa: ARG001 - it is built from it
    """The image of what waits in the cluster."""
    return bring_in_waiter(own_cluster)


@pytest.fixture
def left(runs: Runs, waiter: str) -> Runs:
    """Runs that are left to their waiters."""
    runs.waiter = waiter
    return runs


def _ledger(jobs: Jobs, job: str) -> dict[str, str]:
    name = f"{job}-waiter"
    text = jobs.kubectl("get", "configmap", name, "--ignore-not-found", "--output=json")
    return dict(json.loads(text)["data"]) if text else {}


def _await_end(jobs: Jobs, job: str) -> dict[str, Any]:
    await_true(lambda: "result" in _ledger(jobs, job), otherwise=lambda: str(_ledger(jobs, job)))
    return dict(json.loads(_ledger(jobs, job)["result"]))


def _of_waiter(jobs: Jobs, job: str) -> str:
    owned = ("configmap", "job", "pod", "role", "rolebinding", "serviceaccount")
    listed = jobs.kubectl("get", ",".join(owned), "--output=name").split()
    return "\n".join(each for each in listed if f"{job}-waiter" in each)


def test_a_run_that_is_left_is_judged_in_its_cluster_and_the_next_up_has_its_end(
    job_name: str, left: Runs, jobs: Jobs, trainer: str
) -> None:
    """`up` returns when all ranks run; a later one, with nothing of this machine's, has it all."""
    declared = python(trainer, SLEEPING, "600", wait=False, require={"accuracy": {"min": 0.4}})
    left.train(job_name, **declared)
    begun = left.output(job_name)
    assert (begun["state"], begun["world_size"]) == ("Running", 2)
    again = left.train(job_name, **declared)
    assert again.steps == {}
    assert "still running: 2 ranks: " in again.text
    _assert_its_waiter_may_do_no_more_than_it_does(jobs, job_name)
    enough(jobs, job_name, "master", "worker")
    result = _await_end(jobs, job_name)
    jobs.kubectl("delete", "pytorchjob", job_name)
    archive.of_job("test", job_name).remove()
    last = left.train(job_name, **declared)
    assert last.steps == {"PyTorchJob": "update", "Gate": "replace"}
    assert left.output(job_name) == result
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.5)
    kept = archive.of_job("test", job_name).run(begun["run_id"])
    assert kept.is_complete
    assert [each["about"] for each in archive.entries(kept.timeline)][-1] == "Succeeded"
    assert left.train(job_name, **declared).steps == {}
    left.destroy(job_name)
    assert _of_waiter(jobs, job_name) == ""


def _assert_its_waiter_may_do_no_more_than_it_does(jobs: Jobs, job: str) -> None:
    """No Secrets, no exec, no other job, and no right outside of the namespace."""
    account = f"--as=system:serviceaccount:{JOBS}:{job}-waiter"

    def may(*words: str) -> bool:
        with suppress(Exception):
            return jobs.kubectl("auth", "can-i", *words, account).strip() == "yes"
        return False

    assert may("delete", f"pytorchjobs.kubeflow.org/{job}")
    assert may("patch", f"configmaps/{job}-waiter")
    for denied in (
        *(("get", "secrets"), ("list", "secrets"), ("create", "pods/exec"), ("create", "pods")),
        *(("delete", "pytorchjobs.kubeflow.org/other"), ("patch", "configmaps/other")),
        *(("get", "nodes"), ("list", "pods", "--namespace=kube-system")),
    ):
        assert not may(*denied), denied


_RECEIVER = """
import http.server
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        print(self.headers["Slipway-Id"], body, flush=True)
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(("", 8080), Receiver).serve_forever()
"""


@pytest.fixture
def receiver(jobs: Jobs, trainer: str, job_name: str) -> Iterator[str]:
    """A webhook in a pod, by its name."""
    name = f"{job_name}-receiver"
    pod = restricted_pod(name)
    [container] = pod["spec"]["containers"]
    container |= {"image": trainer, "command": ["python3", "-c", _RECEIVER], "args": []}
    pod["metadata"]["namespace"] = JOBS
    jobs.kubectl("apply", "--filename=-", given=json.dumps(pod))
    jobs.kubectl("wait", "pod", name, "--for=condition=Ready", "--timeout=60s")
    yield name
    jobs.kubectl("delete", "pod", name, "--grace-period=1")


def test_a_failure_of_a_detached_run_fails_the_next_up_with_reason_and_log(
    job_name: str, left: Runs, jobs: Jobs, trainer: str, receiver: str
) -> None:
    """Its retries took place, the reason is that of a waited run, and a webhook knows it."""
    address = jobs.kubectl("get", "pod", receiver, "--output=jsonpath={.status.podIP}")
    left.hook = {"url": f"http://{address}:8080/", "stack": "dev"}
    declared = python(trainer, FAILING, wait=False, retries=1, retryOn=["ownFailure"])
    with left.training(job_name, **declared) as going:
        going.end()
    result = _await_end(jobs, job_name)
    assert [each["number"] for each in result["attempts"]] == [1]
    text = going.text if going.error else left.train_in_vain(job_name, **declared)
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in text
    assert "rank 1 is about to fail" in text
    await_true(lambda: f"{result['run_id']}/Failed" in jobs.kubectl("logs", receiver))
    assert address not in _ledger(jobs, job_name)["run"]
    left.destroy(job_name)


def _kill_process(_jobs: Jobs, job: str) -> None:
    for each in procfs.everyone():
        if each.places.endswith(f"-m jobs.run.waiter {JOBS} {job}"):
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)


def _kill_pod(jobs: Jobs, job: str) -> None:
    jobs.kubectl(
        *("delete", "pod", "--selector", f"batch.kubernetes.io/job-name={job}-waiter"),
        *("--force", "--grace-period=0"),
    )


def test_an_interrupted_run_is_handed_over_to_waiters_that_may_be_killed(
    job_name: str, left: Runs, jobs: Jobs, trainer: str
) -> None:
    """It goes on as it was, and ends while no waiter is there: nothing is lost or trained again."""
    declared = python(trainer, SLEEPING, "600")
    with left.training(job_name, **declared) as going:
        jobs.await_all_running(job_name, pods=2)
        going.context.cancelled.set()
        assert "which continues" in str(going.end().error)
    (uid,) = jobs.uids(job_name)
    left.train(job_name, **declared, wait=False)
    assert left.output(job_name)["state"] == "Running"
    _kill_pod(jobs, job_name)
    enough(jobs, job_name, "master", "worker")
    result = _await_end(jobs, job_name)
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.5)
    assert result["run_id"] == left.output(job_name)["run_id"]
    assert jobs.uids(job_name) == [uid]
    left.destroy(job_name)


def _kill_operator(jobs: Jobs, _job: str) -> None:
    jobs.kubectl(
        *("delete", "pod", "--all-namespaces", "--force", "--grace-period=0"),
        *("--selector", "app.kubernetes.io/name=training-operator"),
    )


@pytest.mark.long
def test_no_verdict_is_lost_and_nothing_trains_twice_whatever_is_killed_whenever(
    job_name: str, left: Runs, jobs: Jobs, trainer: str, own_cluster: TestCluster
) -> None:
    """The waiter, its pod, the operator or the API server, at 20 random moments of runs."""
    generator = random.Random(_SEED)  # noqa: S311

    def kill_server(_jobs: Jobs, _job: str) -> None:
        own_cluster.kill(own_cluster.processes()["kube-apiserver"])

    kills = (_kill_process, _kill_pod, _kill_operator, kill_server)
    for number in range(_KILLS):
        kill, moment = kills[number % len(kills)], generator.uniform(0, 9)
        declared = python(trainer, SLEEPING, "6", wait=False, env={"NUMBER": str(number)})
        with left.training(job_name, **declared) as going:
            time.sleep(moment)
            kill(jobs, job_name)
            going.end()
        await_true(lambda: _answers(jobs, job_name))
        what = f"{kill.__name__} after {moment:.1f} s"
        if going.error is not None:
            left.train(job_name, **declared)
        result = _await_end(jobs, job_name)
        assert (result["state"], result["accuracy"]) == ("Succeeded", 0.5), (what, result)
        assert "attempts" not in result, what
        assert len(jobs.uids(job_name)) == 1, what
    left.destroy(job_name)


def _answers(jobs: Jobs, job: str) -> bool:
    with suppress(Exception):
        _ledger(jobs, job)
        return True
    return False
