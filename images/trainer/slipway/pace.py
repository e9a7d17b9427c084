"""Report how long a rank itself works in each step, which reveals the slowest rank in a run.

Ranks that train together take the same time per step: fast ranks wait for the others in the
backward pass, where gradients are exchanged. So only the time outside the backward pass counts.
"""
# ruff: noqa: SLF001 - torch has no public hook for fetching a batch

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from slipway.events import Events

STEPS = 50
_PAUSE_SECONDS = 20.0
OWN = frozenset({"data", "compute"})
"""The parts of a step in which a rank is not waiting for others."""


class Pace:
    """The times that this rank's latest steps took, split into parts."""

    _clock = staticmethod(time.perf_counter)

    def __init__(self, events: Events, loader: Any, on_gpu: bool) -> None:
        """Start measuring steps; `loader` is the module torch.utils.data.dataloader."""
        self._events, self._on_gpu = events, on_gpu  # GPU work is asynchronous
        self._latest: deque[dict[str, float]] = deque(maxlen=STEPS)
        self._since = self._reported = self._clock()
        self._count, self._depth, self._data, self._backward = 0, 0, 0.0, 0.0
        self._fetch = loader._BaseDataLoaderIter.__next__

        def fetched(batches: Any) -> Any:
            began = self._clock()
            try:
                return self._fetch(batches)
            finally:
                self._data += self._clock() - began

        loader._BaseDataLoaderIter.__next__ = fetched

    def backward(self, run: Callable[[], Any]) -> Any:
        """Run and time a backward pass, which may be inside another, and return its result."""
        began, self._depth = self._clock(), self._depth + 1
        try:
            return run()
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._backward += self._clock() - began

    def step(self) -> None:
        """Record the end of a step; after enough steps, report the median time for each part."""
        now, self._count = self._clock(), self._count + 1
        rest, more = now - self._since - self._data, self._backward
        others = {"rest": rest} if self._on_gpu else {"compute": rest - more, "backward": more}
        self._latest.append({"data": self._data, **others})
        self._since, self._data, self._backward = now, 0.0, 0.0
        if self._count >= STEPS and now - self._reported >= _PAUSE_SECONDS:
            middle = {}
            for part in self._latest[0]:
                middle[part] = round(sorted(each[part] for each in self._latest)[STEPS // 2], 6)
            self._events.emit("pace", steps=STEPS, seconds_in=middle)
            self._count, self._reported = 0, now
