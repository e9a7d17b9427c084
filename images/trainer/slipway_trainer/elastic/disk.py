"""The state of an elastic job on disk, for when all of its workers are lost at once.

Rank 0 of whatever world there is writes it beside the training: the others wait in no collective
operation for a disk. Every worker that starts reads it; where others hold a newer state, it takes
that one over.
"""

import time
from collections.abc import Callable
from typing import Any

from slipway.checkpoints import Interval, Store
from slipway.events import Events
from slipway.writer import Writer


class Disk:
    """The checkpoints of one worker's job, in a store that all workers see."""

    def __init__(self, store: Store, every: Interval, events: Events) -> None:
        self._store, self._every, self._events = store, every, events
        self._begun = time.monotonic()
        self._writer = Writer(store, events)

    def read(self) -> dict[str, Any] | None:
        """Return the newest state that is whole; None where there is none. As `Store.newest`."""
        return self._store.newest(self._events)

    def write(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """Write what `state` returns, if that is due after `step` steps and none is being written.

        It is copied before this returns.
        """
        if not self._writer.is_busy and self._every.passed(step, self._begun):
            self._begun = time.monotonic()
            self._writer.write(state(), step)

    def settle(self) -> None:
        """Wait until what is being written is on the disk."""
        self._writer.settle()
