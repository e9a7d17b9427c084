"""Kill a rank's program once, at the step that its job's `drill` names, to see the job recover."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

DRILL = "SLIPWAY_DRILL"
"""The variable that holds the rank and the step, such as `1 100`; a retry does not have it."""
_DONE = Path(f"{os.environ.get('SLIPWAY_ROOT', '')}/tmp/slipway-drilled")  # noqa: S108
"""On a volume that outlives the pod's containers."""


class Target:
    """The process to kill; the launcher, which reports what its child prints, sets another."""

    pid: Callable[[], int] = staticmethod(os.getpid)


def step_of(event: Mapping[str, Any]) -> "int | None":
    """Return the step that an event of training reports, over all epochs if it has their length."""
    step, steps, epoch = (event.get(name) for name in ("step", "steps", "epoch"))
    if (
        event.get("event") not in {"step", "metrics"}
        or not isinstance(step, int)
        or isinstance(step, bool)
    ):
        return None
    if isinstance(steps, int) and isinstance(epoch, int) and epoch > 0:
        return (epoch - 1) * steps + step
    return step


def strike(event: Mapping[str, Any], report: Callable[..., None]) -> None:
    """Kill the program if `event` is of the drill's rank and has reached its step."""
    rank, _, least = os.environ[DRILL].partition(" ")
    step = step_of(event)
    if step is None or step < int(least) or str(event["rank"]) != rank:
        return
    try:
        _DONE.touch(exist_ok=False)
    except OSError:  # a container before this one was killed
        return
    report("drilled", step=step)
    os.kill(Target.pid(), signal.SIGKILL)
