"""Kill a rank's program once, at the step set in the job's `drill`, to test the recovery."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

DRILL = "SLIPWAY_DRILL"
"""The environment variable with the rank and step, such as `1 100`; a retry does not set it."""
_DONE = Path(f"{os.environ.get('SLIPWAY_ROOT', '')}/tmp/slipway-drilled")  # noqa: S108
"""A file that records the kill. It is on a volume that outlives the pod's containers."""
target: "list[int]" = []
"""The process to kill if it is not this one: the launcher's child process."""


def step_of(event: Mapping[str, Any]) -> "int | None":
    """Return an event's training step, or None; it counts over all epochs if `steps` is present."""
    step, steps, epoch = (event.get(name) for name in ("step", "steps", "epoch"))
    if event.get("event") not in {"step", "metrics"} or type(step) is not int:
        return None
    if isinstance(steps, int) and isinstance(epoch, int) and epoch > 0:
        return (epoch - 1) * steps + step
    return step


def strike(event: Mapping[str, Any], report: Callable[..., None]) -> None:
    """Kill the program if `event` is from the drill's rank and has reached the drill's step."""
    rank, _, least = os.environ[DRILL].partition(" ")
    step = step_of(event)
    if step is None or step < int(least) or str(event["rank"]) != rank:
        return
    try:
        _DONE.touch(exist_ok=False)
    except OSError:  # a container before this one was killed
        return
    report("drilled", step=step)
    os.kill((target or [os.getpid()])[0], signal.SIGKILL)
