"""Waiting in a test, with limits that guard against hanging and say nothing of how fast it is."""

import time
from collections.abc import Callable

COMMAND_SECONDS = 10 * 60
"""For one command, also where the machine does other things besides."""
_STATE_SECONDS = 5 * 60
_POLL_SECONDS = 0.5


def await_true(
    holds: Callable[[], bool],
    limit_seconds: float = _STATE_SECONDS,
    otherwise: Callable[[], str] = lambda: "it did not come to that",
) -> None:
    """Wait until something holds, and fail with what `otherwise` says when it does not come to."""
    deadline = time.monotonic() + limit_seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_seconds} s: {otherwise()}"
        time.sleep(_POLL_SECONDS)
