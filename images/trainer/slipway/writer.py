"""Writes checkpoints beside the training, which goes on as soon as the state is copied.

That takes as much memory again as the state, of the CPU's. Only one is being written at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from slipway.checkpoints import Interval, Store
from slipway.events import Events


class Writer:
    """Writes states into a store, in a thread; an error is a warning among the events."""

    def __init__(self, store: Store, every: Interval, events: Events) -> None:
        self.store, self._every, self._events = store, every, events
        self._begun = time.monotonic()
        self._thread: threading.Thread | None = None

    def write_if_due(self, state: Callable[[], Mapping[str, Any]], step: int) -> None:
        """Write what `state` returns, if that is due after `step` steps and none is being written.

        It is copied before this returns.
        """
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and self._every.passed(step, self._begun):
            self._begun = time.monotonic()
            self.write(state(), step)

    def write(self, state: Mapping[str, Any], step: int) -> None:
        """Copy the state after `step` steps, and begin to write it; first wait for the last one."""
        self.settle()
        taken = _copied(state)
        # No daemon: a program that ends waits for it.
        self._thread = threading.Thread(target=self._save, args=(taken, step), name="checkpoint")
        self._thread.start()

    def settle(self) -> None:
        """Wait until what is being written is on the disk."""
        if self._thread is not None:
            self._thread.join()

    def _save(self, state: Mapping[str, Any], step: int) -> None:
        try:
            self.store.write(state, step, self._events)
        except (OSError, ValueError) as error:
            # The training is worth more than its copy.
            self._events.emit("warning", warning=f"no checkpoint of step {step}: {error}")


def _copied(value: Any) -> Any:
    """Return a copy that later steps do not change; of tensors on the CPU."""
    if hasattr(value, "detach"):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value
