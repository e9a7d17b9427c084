"""Statistics for one epoch on this rank: steps, samples, loss, and the time spent in each part."""

import resource
import time
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch


@dataclass
class EpochTimings:
    """Statistics for the current epoch, as plain numbers that can be saved and restored."""

    steps: int = 0
    samples: int = 0
    loss_sum: Any = 0.0
    """The sum of the recorded losses; a tensor if they were tensors."""
    loss_count: int = 0
    seconds: float = 0.0
    """Training time, between `resume` and `pause`."""
    cpu_seconds: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    """Seconds spent in each part, over all steps."""
    since: tuple[float, float] | None = None
    """Time and CPU time at the last `resume`, or None while paused."""
    mark: float = 0.0
    """The time when the last part of a step ended."""
    events: list[tuple[str, Any]] = field(default_factory=list)
    """On a GPU, which works asynchronously: the name of each part that ended, with the
    torch.cuda.Event that marks its end; the first event marks the start."""

    def resume(self) -> None:
        """Start or resume timing the training."""
        self.mark = time.perf_counter()
        self.since = (self.mark, time.process_time())
        if torch.cuda.is_initialized():
            self.events = [("", _event())]

    def pause(self) -> None:
        """Pause timing the training."""
        if self.since is not None:
            self._read_events()
            self.seconds += time.perf_counter() - self.since[0]
            self.cpu_seconds += time.process_time() - self.since[1]
            self.since = None

    def trained(self) -> float:
        """Return the seconds spent in training so far."""
        running = 0.0 if self.since is None else time.perf_counter() - self.since[0]
        return self.seconds + running

    def part(self, name: str) -> None:
        """Record that the part `name` of a step ended."""
        if self.events:
            self.events.append((name, _event()))
            if len(self.events) > 1024:
                self._read_events()
            return
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - self.mark
        self.mark = now

    def _read_events(self) -> None:
        """Add up the GPU events, after waiting for the last one."""
        if self.events:
            self.events[-1][1].synchronize()
            for (_, before), (name, event) in pairwise(self.events):
                seconds = before.elapsed_time(event) / 1000  # milliseconds
                self.parts[name] = self.parts.get(name, 0.0) + seconds
            del self.events[:-1]

    def mean_loss(self) -> float | None:
        return float(self.loss_sum) / self.loss_count if self.loss_count else None

    def state(self) -> dict[str, Any]:
        """Return the state, which `EpochTimings(**state)` restores."""
        running = self.since is not None
        self.pause()
        state = asdict(replace(self, loss_sum=float(self.loss_sum), events=[]))
        if running:
            self.resume()
        return state

    def event_fields(self) -> dict[str, Any]:
        """Return this rank's fields for an `epoch` event."""
        mean = self.mean_loss()
        speed = self.samples / self.seconds if self.seconds else 0.0
        return {
            **({} if mean is None else {"rank_loss": round(mean, 6)}),
            "steps": self.steps,
            "samples": self.samples,
            "seconds": round(self.seconds, 3),
            "samples_per_second": round(speed, 1),
            "seconds_in": {name: round(seconds, 3) for name, seconds in self.parts.items()},
            "cpu_seconds": round(self.cpu_seconds, 3),
            **_peak_memory(),
        }


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _peak_memory() -> dict[str, float]:
    """Return this process's peak memory, on the host and on its GPU, in MiB."""
    # Linux counts in KiB: https://man7.org/linux/man-pages/man2/getrusage.2.html
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peaks = {"peak_memory_mib": round(kilobytes / 1024, 1)}
    if torch.cuda.is_available():
        peaks["gpu_peak_memory_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return peaks
