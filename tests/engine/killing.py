"""Kills an `up` that is on its way, and looks at what the next one has made of it."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from scripts.scratch import Finished, Scratch
from tests.engine.footprint import Footprint
from tests.engine.procfs import Process
from tests.engine.stack import UP_SECONDS, LiveStack

VICTIMS = ("pulumi", "make up")
"""The CLI alone, or the whole process group of the command that a person has typed."""
_ENDING_SECONDS = 20.0
_LAST = r"slipway:jobs:Gate \S+ (created|replaced)"


@dataclass(frozen=True)
class Killed:
    """An `up` that did not come to its end."""

    victim: str
    seconds: float  # after the start
    when: datetime
    submitted: bool  # whether its PyTorchJob was there already


def moments(count: int, generator: random.Random) -> list[float]:
    """Return random parts of a whole, one in each of `count` equal stretches of it, shuffled."""
    drawn = [(stretch + generator.random()) / count for stretch in range(count)]
    generator.shuffle(drawn)
    return drawn


def train_with(stack: LiveStack, seed: int) -> None:
    """Have the next `make up` train with this seed, for seconds."""
    if not stack.settings.exists():
        shutil.copy(stack.scratch.checkout / "stacks/dev.yaml", stack.settings)
    args = ["--limit-train", "3000", "--limit-test", "500", "--seed", str(seed)]
    job = {"workers": 1, "cpu": "100m", "minAccuracy": 0.1, "args": args}
    stack.configure(cluster={"kind": "embedded"}, jobs={"mnist-gloo": job})


def kill(scratch: Scratch, victim: str, seconds: float) -> Killed:
    """Start `make up` and kill it after `seconds`, or when it has made its last resource.

    On a busy machine it may just have ended then.
    """
    process = scratch.start("make up")
    began, said = time.monotonic(), ""
    while time.monotonic() - began < seconds and not re.search(_LAST, said):
        time.sleep(0.05)
        said = scratch.output.read_text(errors="replace")
    seconds, when = time.monotonic() - began, datetime.now(UTC)
    assert process.poll() in {None, 0}, said
    if victim != "pulumi" or not kill_cli(scratch):
        victim = "make up"
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    submitted = re.search(r"PyTorchJob \S+ creating[^\n]* \d+ ranks", said) is not None
    return Killed(victim, seconds, when, submitted)


def kill_cli(scratch: Scratch) -> bool:
    """Kill Pulumi's CLI, and return whether it was there."""
    found = [p for p in Footprint.take(scratch.directory).processes if p.program == "pulumi"]
    for each in found:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    return found != []


def assert_healed(stack: LiveStack, killed: Killed, healed: Finished) -> None:
    """Fail unless one command has brought the stack to where an undisturbed one would have."""
    result = stack.job("mnist-gloo")
    assert result["state"] == "Succeeded", (killed, result, str(healed))
    [job] = json.loads(stack.kubectl("--namespace slipway-jobs get pytorchjobs -o json"))["items"]
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    assert created <= killed.when or not killed.submitted, (killed, created, str(healed))
    assert orphans(stack) == [], (killed, str(healed))


def orphans(stack: LiveStack) -> list[Process]:
    """Return the processes that nobody waits for any more; those of the cluster are none."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while (left := _outside(stack)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def _outside(stack: LiveStack) -> list[Process]:
    """Return the stack's processes in no control group of a cluster."""
    return [
        process
        for process in Footprint.take(stack.scratch.directory).processes
        if not any(path.name.startswith("slipway-") for path in process.cgroups)
    ]


def wait_until_said(stack: LiveStack, command: "subprocess.Popen[bytes]", pattern: str) -> None:
    """Wait until a running command has said `pattern`; fail when it ends without."""
    deadline = time.monotonic() + UP_SECONDS
    while re.search(pattern, stack.scratch.output.read_text(errors="replace")) is None:
        said = stack.scratch.output.read_text() + stack.scratch.errors.read_text()
        assert time.monotonic() < deadline, f"{pattern!r} was not said:\n{said}"
        assert command.poll() is None, f"it ended before {pattern!r}:\n{said}"
        time.sleep(0.2)
