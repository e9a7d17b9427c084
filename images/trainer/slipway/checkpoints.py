"""Save the state of a training run in checkpoints, from which the next attempt resumes.

    state = slipway.latest()
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(0 if state is None else state["step"], steps):
        ...
        if slipway.due(step + 1):
            now = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            slipway.save(now, step=step + 1)

A checkpoint is a single file, which rank 0 writes and all ranks read. Once complete on disk, it is
named step-000000200.<sha256, 16 digits>.pt; a truncated or changed file does not match its name.
If a job sets `checkpoint`, these variables are set; if they are not, `due` is never true.

    SLIPWAY_CHECKPOINT_DIR    the checkpoint directory
    SLIPWAY_CHECKPOINT_EVERY  "500 steps" or "600 s"
    SLIPWAY_CHECKPOINT_KEEP   the number of checkpoints to keep
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from slipway.checkpoint_store import KEPT, Store, agreed
from slipway.events import Events, own_rank

EXIT_TERMINATED = 128 + signal.SIGTERM
stopping = threading.Event()
"""Set by a SIGTERM handler, so that the next step writes a checkpoint."""


def own_store(events: Events) -> Store | None:
    """Return the job's checkpoint store, or None; raises `ValueError` for an invalid interval."""
    if (directory := os.environ.get("SLIPWAY_CHECKPOINT_DIR")) is None:
        return None
    keep = int(os.environ.get("SLIPWAY_CHECKPOINT_KEEP", str(KEPT)))
    every = os.environ.get("SLIPWAY_CHECKPOINT_EVERY", "600 s")
    if (match := re.fullmatch(r"([1-9]\d*) ?(steps|s)", every)) is None:
        raise ValueError(
            f"SLIPWAY_CHECKPOINT_EVERY={every} is not allowed; use a value such as '500 steps' or "
            "'600 s'"
        )
    return Store(Path(directory), int(match[1]), match[2] == "steps", events, keep)


def latest() -> dict[str, Any] | None:
    """Return the last saved state, including its step number, `step`, or None if there is none.

    Call this on every rank, and before the first step, since rank 0 may write a checkpoint after
    that. In a process group, all ranks get the same state. Tensors are on the CPU.

    Raises:
        ValueError: there are checkpoints, but all were changed or truncated.
    """
    if (store := _store()) is None:
        return None
    if (state := agreed(store.newest())) is not None:
        store.resumed(state["step"])
    return state


def due(step: int) -> bool:
    """Return whether to call `save` now, after `step` steps.

    If the interval is in steps, the result is the same on all ranks; if it is in seconds, only rank
    0 gets True. After SIGTERM, rank 0 gets True, other ranks get False; `save` then exits the
    program.
    """
    if (store := _store()) is None:
        return False
    _notice_sigterm()
    is_first = own_rank() == 0
    if stopping.is_set():
        return is_first
    return (store.counts_steps or is_first) and store.due(step)


def save(state: Mapping[str, Any], *, step: int, wait: bool = True) -> Path | None:
    """Write the state after `step` steps on rank 0, and return the path of the complete file.

    The job keeps the last `checkpoint.keep` files. Other ranks write nothing: in data-parallel
    training, all ranks have the same state.

    Args:
        state: Tensors, numbers, strings, and lists and dicts of them, such as state_dicts.
        step: The number of steps taken, which is added to the state as `step`.
        wait: If False, return None once the state is copied, and write the file in the background;
            an error is then a warning.

    Raises:
        ValueError: the state contains other values.
        OSError: the file can't be written.
        SystemExit: after SIGTERM, once the checkpoint is written.
    """
    if (store := _store()) is None or own_rank() != 0:
        return None
    store.settle()
    path = None
    if wait or stopping.is_set():
        path = store.write(state, step)
    else:
        store.write_beside(state, step)
    store.written = time.monotonic()
    if stopping.is_set():
        raise SystemExit(EXIT_TERMINATED)
    return path


@cache
def _store() -> Store | None:
    """Return this process's single store object, which remembers the time of the last write."""
    return own_store(Events(own_rank()))


def _notice_sigterm() -> None:
    """Make SIGTERM take effect only at the next step; does nothing outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return  # the program set its own handler, or this one is already set
    # A hanging rank never reaches its next step, so its stack must still be shown.
    faulthandler.unregister(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)
    # Children take no steps, and multiprocessing ends them by SIGTERM.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
