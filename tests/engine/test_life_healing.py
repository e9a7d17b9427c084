"""What is killed comes back with the next `make up`."""

import os
import signal

from tests.engine.footprint import Footprint
from tests.engine.procfs import Process
from tests.engine.stack import LiveStack

COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "containerd",
    "supervisord",
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


def test_the_next_make_up_heals_what_was_killed(live_stack: LiveStack) -> None:
    """Every component and what watches over them; no job is trained again for it."""
    before = live_stack.uids()
    killed = parts(live_stack, *COMPONENTS)
    for process in killed.values():
        os.kill(process.pid, signal.SIGKILL)
    healed = live_stack.up()
    alive = parts(live_stack, *COMPONENTS)
    assert [name for name in COMPONENTS if alive[name] == killed[name]] == [], healed
    assert live_stack.kubectl("get nodes --no-headers").split()[1] == "Ready"
    assert live_stack.uids() == before
