"""Teardown: runs first, then what they stand on; nothing hangs, and nothing is left."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.footprint import Footprint
from tests.engine.job_programs import SLEEPING, python
from tests.engine.killing import train_with
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack
from tests.engine.test_life_healing import wait_until_said

HOLD = "example.com/hold"
HELD_SECONDS = 60
"""For how long a destroy waits for one object."""
NOTHING = r"Nothing of dev is left: 0 processes, .*0 files"
TRAINING = r"PyTorchJob mnist-gloo creating \(\d+s\) \d ranks: .*running"


def test_destroy_stops_a_run_that_is_on(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """The state knows nothing of it yet: it is an operation that was begun."""
    with job_stack.training(job_name, **python(trainer, SLEEPING, "600")) as up:
        jobs.await_running(job_name)
        up.send_signal(signal.SIGINT)
        up.wait(COMMAND_SECONDS)
    job_stack.train_in_vain(job_name, **python(trainer, SLEEPING, "600", timeout=1))
    job_stack.destroy()
    assert jobs.uids(job_name) == []
    assert jobs.items("pods", job_name) == []


@pytest.mark.parametrize("kind", ["pytorchjob", pytest.param("pod", marks=pytest.mark.long)])
def test_a_destroy_that_a_finalizer_holds_ends_and_says_what_to_do(
    kind: str, job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    name = job_name if kind == "pytorchjob" else f"{job_name}-worker-0"
    jobs.kubectl("patch", kind, name, "--type=merge", f"--patch={finalizers(HOLD)}")
    try:
        held = job_stack.attempt("destroy", environment=job_stack.environment())
        assert held.code != 0, str(held)
        assert seconds_of(held.text) < HELD_SECONDS + 30, str(held)
        assert re.search(rf"(?i){kind} {name} is held by the finalizer {HOLD}", held.text), held
        release = f"kubectl --namespace slipway-jobs patch {kind} {name} "
        assert release in held.text, str(held)
    finally:
        jobs.kubectl("patch", kind, name, "--type=merge", f"--patch={finalizers()}")
    job_stack.destroy()


def test_make_down_stops_runs_first_and_proves_that_nothing_is_left(
    spare_stack: LiveStack,
) -> None:
    """Also the run of an `up` that was killed while it trained: only the cluster knows it."""
    killed_while(spare_stack, TRAINING)
    down = spare_stack.down()
    assert "stops what an interrupted run has left: mnist-gloo" in down.output, down
    assert in_order(
        down.output,
        "OperatorReady training-operator deleting",
        "OperatorReady training-operator deleted",
        "Deployment training-operator deleting",
        "CustomResourceDefinition pytorchjobs.kubeflow.org deleting",
        "Namespace kubeflow deleted",
        "Namespace slipway-jobs deleting",
        "Namespace slipway-jobs deleted",
        "Embedded dev deleting",
    ), down
    assert re.search(NOTHING, down.errors), down
    again = spare_stack.down()
    assert "nothing to destroy" in again.errors, again
    assert re.search(NOTHING, again.errors), again


@pytest.mark.long
def test_make_down_of_an_own_cluster_takes_what_a_finalizer_holds_with_it(
    spare_stack: LiveStack,
) -> None:
    train_with(spare_stack, seed=0)
    spare_stack.up()
    in_jobs = "--namespace slipway-jobs"
    for thing in ("pytorchjob mnist-gloo", "pod mnist-gloo-master-0"):
        spare_stack.kubectl(f"{in_jobs} patch {thing} --type=merge --patch='{finalizers(HOLD)}'")
    spare_stack.kubectl(f"{in_jobs} create configmap held")
    spare_stack.kubectl(f"{in_jobs} patch configmap held --type=merge -p '{finalizers(HOLD)}'")
    down = spare_stack.down()
    assert f"PyTorchJob mnist-gloo is held by the finalizer {HOLD}" in down.said, down
    assert "goes with it" in down.errors, down
    assert re.search(NOTHING, down.errors), down
    assert down.seconds < 3 * HELD_SECONDS, down


@pytest.mark.long
@pytest.mark.parametrize(
    "stage", ["Embedded dev creating", "Image slipway-trainer creating", "OperatorReady.*creating"]
)
def test_make_down_after_a_half_finished_up_leaves_nothing(
    stage: str, spare_stack: LiveStack
) -> None:
    killed_while(spare_stack, stage)
    down = spare_stack.down()
    assert re.search(NOTHING, down.errors), down


def test_make_down_fails_and_lists_what_is_left(spare_stack: LiveStack) -> None:
    with stray(spare_stack.scratch.state_home / "slipway/clusters/dev") as process:
        down = spare_stack.attempt("make down")
        assert down.code != 0, down
        assert f"process {process.pid} (sleep): kill -9 {process.pid}" in down.errors, down
        assert "Nothing of dev is left" not in down.said, down


@contextmanager
def stray(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that works in a cluster's directory and is in none of its control groups."""
    directory.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], cwd=directory) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_while(stack: LiveStack, pattern: str) -> None:
    """Kill the CLI once its update has said `pattern`."""
    train_with(stack, seed=0)
    process = stack.scratch.start("make up")
    wait_until_said(stack, process, rf"(?s)Updating \(dev\).*{pattern}")
    for each in Footprint.take(stack.scratch.directory).processes:
        if each.program == "pulumi":
            os.kill(each.pid, signal.SIGKILL)
    assert process.wait(60) != 0


def in_order(text: str, *parts: str) -> bool:
    """Whether every part is there, its first occurrence after that of the one before."""
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def finalizers(*names: str) -> str:
    """A merge patch that puts finalizers on an object, or takes all of them off."""
    listed = ",".join(f'"{name}"' for name in names)
    return f'{{"metadata":{{"finalizers":[{listed}]}}}}'


def seconds_of(text: str) -> int:
    """How long the CLI says that its command took."""
    found = re.search(r"Duration: (?:(\d+)m)?(\d+)s", text)
    assert found is not None, text
    return 60 * int(found[1] or 0) + int(found[2])
