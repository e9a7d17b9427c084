"""Keeps the state of a training in files, for the next attempt to go on from.

    state = slipway.latest()
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(0 if state is None else state["step"], steps):
        ...
        if slipway.due(step + 1):
            now = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            slipway.save(now, step=step + 1)

A checkpoint is one file, which rank 0 writes. It gets its name, step-000000200.<sha256, 16
digits>.pt, when all of it is on the disk: what is cut off or changed later no longer fits its name.
All ranks read it. A job with `checkpoint` sets the variables; without them `due` is never true.

    SLIPWAY_CHECKPOINT_DIR    where they are
    SLIPWAY_CHECKPOINT_EVERY  "500 steps" or "600 s"
    SLIPWAY_CHECKPOINT_KEEP   how many stay
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

from slipway.checkpoint_store import KEPT, Store
from slipway.events import Events, own_rank

EXIT_TERMINATED = 128 + signal.SIGTERM
stopping = threading.Event()
"""Set once SIGTERM came, by whoever waits for it: the next step is to write a checkpoint."""


def own_store(events: Events) -> Store | None:
    """Return this job's checkpoints, None for a job without; `ValueError` for a wrong interval."""
    if (directory := os.environ.get("SLIPWAY_CHECKPOINT_DIR")) is None:
        return None
    keep = int(os.environ.get("SLIPWAY_CHECKPOINT_KEEP", str(KEPT)))
    every = os.environ.get("SLIPWAY_CHECKPOINT_EVERY", "600 s")
    if (found := re.fullmatch(r"([1-9]\d*) ?(steps|s)", every)) is None:
        raise ValueError(f"{every} is not allowed, it takes such as '500 steps' or '600 s'")
    return Store(Path(directory), int(found[1]), found[2] == "steps", events, keep)


def latest() -> dict[str, Any] | None:
    """Return what `save` was given last, on every rank, and its number as `step`; or None.

    Tensors are on the CPU. Call it before the first step: rank 0 may write later.

    Raises:
        ValueError: there are checkpoints, and all of them were changed since.
    """
    if (store := _store()) is None:
        return None
    if (state := store.newest()) is not None:
        store.events.emit("resumed", step=state["step"])
    return state


def due(step: int) -> bool:
    """Return whether to call `save` now that `step` steps are made.

    With an interval in steps all ranks get the same answer, otherwise rank 0 alone gets a yes.
    After SIGTERM rank 0 gets one, too: `save` then ends the program.
    """
    if (store := _store()) is None:
        return False
    _notice_sigterm()
    is_first = own_rank() == 0
    if stopping.is_set():
        return is_first
    return (store.counts_steps or is_first) and store.due(step)


def save(state: Mapping[str, Any], *, step: int, wait: bool = True) -> Path | None:
    """Write the state after `step` steps, as rank 0; return the file, which is whole and stays.

    Of older ones as many stay as the job's `checkpoint.keep` says. Other ranks write nothing: in
    data-parallel training all have the same state.

    Args:
        state: Tensors, numbers, text, and lists and maps of them, such as state_dicts.
        step: How many steps are in it; it is added to the state as `step`.
        wait: Or else return None once the state is copied, and write the file beside the training;
            what goes wrong is then a warning.

    Raises:
        ValueError: something else is in the state.
        OSError: it can't be written.
        SystemExit: SIGTERM had come, and the checkpoint is written.
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
    """Return this process' store, always the same: it knows when it was written to last."""
    return own_store(Events(own_rank()))


def _notice_sigterm() -> None:
    """From now on let SIGTERM be seen at the next step; in the main thread alone."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return  # the program has its own way, or this is done
    # A rank that hangs never comes to its next step: its stack is shown, as it was before.
    faulthandler.unregister(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)
