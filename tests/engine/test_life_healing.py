"""What is killed comes back with the next `make up`, and no job is trained again for it."""

import os
import re
import signal
import subprocess
import time
from datetime import UTC, datetime

import pytest

from tests.engine.footprint import Footprint
from tests.engine.procfs import Process
from tests.engine.stack import UP_SECONDS, LiveStack

COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "containerd",
)


def parts(stack: LiveStack, *names: str) -> dict[str, Process]:
    """Return the process of the stack's cluster that runs each of these programs."""
    processes = Footprint.take(stack.scratch.directory).processes
    found = {
        name: [p for p in processes if name == p.program or f".{name} " in p.places]
        for name in names
    }
    running = sorted(process.program for process in processes)
    assert all(found.values()), f"not all of {names} are among: {running}"
    return {name: min(each, key=lambda process: process.started) for name, each in found.items()}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(COMPONENTS, id="every-component"),
        # What watches over them.
        pytest.param(("supervisord",), id="supervisord"),
    ],
)
def test_the_next_make_up_heals_what_was_killed(
    live_stack: LiveStack, names: tuple[str, ...]
) -> None:
    before = live_stack.uids()
    killed = parts(live_stack, *names)
    for process in killed.values():
        os.kill(process.pid, signal.SIGKILL)
    healed = live_stack.up()
    alive = parts(live_stack, *names)
    assert [name for name in names if alive[name] == killed[name]] == [], healed
    assert live_stack.kubectl("get nodes --no-headers").split()[1] == "Ready"
    assert live_stack.uids() == before


@pytest.mark.long
def test_a_killed_cli_is_picked_up_by_the_next_make_up(spare_stack: LiveStack) -> None:
    first = spare_stack.scratch.start("make up")
    wait_until_said(spare_stack, first, r"mnist-gloo.*(Running|running|epoch)")
    (cli,) = {
        p for p in Footprint.take(spare_stack.scratch.directory).processes if p.program == "pulumi"
    }
    killed_at = datetime.now(UTC)
    os.kill(cli.pid, signal.SIGKILL)
    assert first.wait(60) != 0
    finished = spare_stack.up()
    result = spare_stack.job("mnist-gloo")
    assert result["state"] == "Succeeded", finished
    assert result["samples_seen"] == 60_000
    assert created(spare_stack) < killed_at, "the job was submitted anew and not adopted"
    second = spare_stack.up()
    assert "unchanged" in second.text[second.text.rindex("Resources:") :]


def created(stack: LiveStack) -> datetime:
    """Return when the job that is there now was submitted."""
    field = "jsonpath={.metadata.creationTimestamp}"
    return datetime.fromisoformat(
        stack.kubectl(f"--namespace slipway-jobs get pytorchjob mnist-gloo --output {field}")
    )


def wait_until_said(stack: LiveStack, command: "subprocess.Popen[bytes]", pattern: str) -> None:
    """Wait until a running command has said `pattern`; fail when it ends without."""
    deadline = time.monotonic() + UP_SECONDS
    while re.search(pattern, stack.scratch.output.read_text(errors="replace")) is None:
        said = stack.scratch.output.read_text() + stack.scratch.errors.read_text()
        assert time.monotonic() < deadline, f"{pattern!r} was not said:\n{said}"
        assert command.poll() is None, f"it ended before {pattern!r}:\n{said}"
        time.sleep(0.2)
