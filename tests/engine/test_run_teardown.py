"""Teardown: runs first, then what they stand on; nothing hangs, and nothing is left."""

import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters import owner
from tests.engine.killing import kill_cli, train_with, wait_until_said
from tests.engine.stack import LiveStack

NOTHING = r"Removed dev completely: 0 processes, .*0 files"
TRAINING = r"PyTorchJob mnist-gloo creating[^\n]* \d ranks: [^\n]*running"
"""Also where it takes the place of another run: `creating replacement`."""


def test_make_down_stops_runs_first_and_proves_that_nothing_is_left(
    mortal_stack: LiveStack,
) -> None:
    """Also the run of an `up` that was killed while it trained: only the cluster knows it."""
    killed_while(mortal_stack, TRAINING)
    down = mortal_stack.down()
    assert "stopping what an interrupted run left behind: mnist-gloo" in down.output, down
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
    again = mortal_stack.down()
    assert "nothing to destroy" in again.errors, again
    assert re.search(NOTHING, again.errors), again


@pytest.mark.long
def test_make_down_of_an_own_cluster_takes_what_a_finalizer_holds_with_it(
    spare_stack: LiveStack,
) -> None:
    """It never hangs on a finalizer: it ends, and says what is held by what."""
    train_with(spare_stack, seed=0)
    spare_stack.up()
    in_jobs, held = "--namespace slipway-jobs", '{"metadata":{"finalizers":["example.com/hold"]}}'
    spare_stack.kubectl(f"{in_jobs} create configmap held")
    for thing in ("pytorchjob mnist-gloo", "pod mnist-gloo-master-0", "configmap held"):
        spare_stack.kubectl(f"{in_jobs} patch {thing} --type=merge --patch='{held}'")
    down = spare_stack.down()
    reason = "PyTorchJob mnist-gloo can't be deleted while it has the finalizer example.com/hold"
    assert reason in down.text, down
    assert "it is removed with everything in it" in down.errors, down
    assert re.search(NOTHING, down.errors), down


@pytest.mark.long
@pytest.mark.parametrize("stage", ["OperatorReady.*creating", "Embedded dev creating"])
def test_make_down_after_a_half_finished_up_leaves_nothing(
    stage: str, mortal_stack: LiveStack
) -> None:
    without_cluster(mortal_stack)
    killed_while(mortal_stack, stage)
    down = mortal_stack.down()
    assert re.search(NOTHING, down.errors), down


def test_make_down_fails_and_lists_what_is_left(mortal_stack: LiveStack) -> None:
    without_cluster(mortal_stack)
    with stray(mortal_stack.cluster) as process:
        down = mortal_stack.attempt("make down")
        assert down.code != 0, down
        assert f"process {process.pid} (sleep): kill -9 {process.pid}" in down.errors, down
        assert "Removed dev completely" not in down.text, down


def without_cluster(stack: LiveStack) -> None:
    """Bring a stack down that may be up."""
    if stack.cluster.exists():
        stack.down()


@contextmanager
def stray(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a cluster's directory and a mount namespace, but in no control group of it."""
    owner.claim(directory, "slipway/dev")
    with subprocess.Popen(["unshare", "--mount", "sleep", "600"], cwd=directory) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_while(stack: LiveStack, pattern: str) -> None:
    """Kill the CLI once its update has said `pattern`; there is something to train in any case."""
    train_with(stack, seed=secrets.randbelow(1 << 20))
    process = stack.scratch.start("make up")
    wait_until_said(stack, process, rf"(?s)Updating \(dev\).*{pattern}")
    kill_cli(stack.scratch)
    assert process.wait(60) != 0


def in_order(text: str, *parts: str) -> bool:
    """Whether every part is there, its first occurrence after that of the one before."""
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)
