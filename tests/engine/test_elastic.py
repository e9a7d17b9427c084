"""An elastic job loses a pod; what else it bears, and what that costs, is in tests/trainer."""

import itertools
import os
import secrets
import signal
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.pytorchjob_stack import Jobs, JobStack

WORKERS, BATCH, SAMPLES = 3, 64, 12_000
PAUSE_SECONDS = 60
"""Far more than the second or two that it takes where nothing else runs (docs/elastic.md)."""
LOST_AT = 0.4
"""Which part of the epoch's steps are made when a worker is lost."""

Lose = Callable[[Jobs, dict[str, Any]], None]
DECLARED: dict[str, Any] = {
    "demo": "mnist-elastic",
    "args": ["--log-interval", "5", "--limit-train", str(SAMPLES)],
    "minAccuracy": 0.9,
}
"""The demo on a fifth of the samples, with many step events."""


def delete(jobs: Jobs, pod: dict[str, Any]) -> None:
    """Delete the pod, and give its program no time."""
    jobs.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")


def kill(_jobs: Jobs, pod: dict[str, Any]) -> None:
    """Kill every process of the pod at once, its sandbox's included, as a lost node would."""
    killed = 0
    for status in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if pod["metadata"]["uid"] in status.read_text():
                os.kill(int(status.parent.name), signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended meanwhile.
    assert killed >= 2, "its sandbox and its program"


@pytest.mark.parametrize(
    ("lost", "lose"),
    [
        pytest.param(0, kill, id="rendezvous-host-kill"),
        pytest.param(1, delete, id="worker-1-delete", marks=pytest.mark.long),
    ],
)
def test_it_finishes_when_a_worker_is_lost(
    lost: int, lose: Lose, module_stack: JobStack, jobs: Jobs
) -> None:
    """In the middle of its epoch, and counts each sample once."""
    name = f"lossy-{secrets.token_hex(3)}"
    with module_stack.going_up(**{name: DECLARED}) as up:
        await_true(lambda: _progress(jobs, name) >= LOST_AT)
        pods = {pod["metadata"]["name"]: pod for pod in jobs.items("pods", name)}
        before = [event for event in jobs.events(name) if event["event"] == "step"]
        lose(jobs, pods[f"{name}-worker-{lost}"])
        assert up.wait(COMMAND_SECONDS) == 0, module_stack.log
    result = module_stack.output(name)
    assert result["state"] == "Succeeded", result
    assert result["samples_seen"] == SAMPLES
    assert result["reformations"] >= 1
    events = jobs.events(name)
    # The lost pod's log is lost with it, so its steps were read before.
    steps = before + [event for event in events if event["event"] == "step"]
    times = sorted(datetime.fromisoformat(event["time"]) for event in steps)
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(times)]
    assert max(result["longest_pause_seconds"], *gaps) < PAUSE_SECONDS
    ledgers = [event for event in events if event["event"] == "ledger"]
    assert ledgers
    for ledger in ledgers:
        assert ledger["counted_once"] == ledger["indices"] == SAMPLES
        assert ledger["missing"] == ledger["repeated"] == 0
    after = {pod["metadata"]["name"]: pod for pod in jobs.items("pods", name)}
    for survivor in pods.keys() - {f"{name}-worker-{lost}"}:
        assert after[survivor]["metadata"]["uid"] == pods[survivor]["metadata"]["uid"]
        assert after[survivor]["status"]["containerStatuses"][0]["restartCount"] == 0


def _progress(jobs: Jobs, name: str) -> float:
    """Return which part of the epoch's steps is made, as the pods that are there tell."""
    events = jobs.events(name)
    world = next((event["world_size"] for event in events if event.get("world_size")), WORKERS)
    steps = [event["step"] for event in events if event["event"] == "step"]
    return max(steps, default=0) * BATCH * world / SAMPLES
