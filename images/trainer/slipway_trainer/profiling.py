"""torch's profiler around a few steps of an epoch, on request."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.profiler import (
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

WAIT, WARMUP, ACTIVE = 1, 1, 3
"""Steps before the profiler runs, steps for it to settle, and steps that are in the trace."""


class Profiler:
    """Does nothing, as long as no trace is asked for."""

    def step(self) -> None:
        """A training step ends here."""


@contextmanager
def profiled(directory: Path | None, rank: int) -> Iterator[Profiler | profile]:
    """Write a trace of this rank's first steps into `directory`, when there is one.

    The trace opens in https://ui.perfetto.dev, chrome://tracing and TensorBoard.
    """
    if directory is None:
        yield Profiler()
        return
    with profile(
        activities=supported_activities(),
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(directory), worker_name=f"rank{rank}"),
    ) as running:
        yield running
