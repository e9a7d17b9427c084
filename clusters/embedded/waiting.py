"""Waiting with a limit: what was the matter last is in the error, and the log to read."""

from collections.abc import Callable
from pathlib import Path

import tenacity

INTERVAL = 0.1


def until_well(
    problem: Callable[[], str | None], *, what: str, limit: float, log: Path | None = None
) -> None:
    """Ask again and again until nothing is the matter.

    Args:
        problem: Says what is the matter, or None when all is well.
        what: What is waited for, as the error names it.
        limit: Seconds.
        log: Where to read more.

    Raises:
        TimeoutError: something was still the matter after `limit` seconds.
    """
    retrying = tenacity.Retrying(
        wait=tenacity.wait_fixed(INTERVAL),
        stop=tenacity.stop_after_delay(limit),
        retry=tenacity.retry_if_result(lambda found: found is not None),
        # The last answer instead of a RetryError.
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    found: str | None = retrying(problem)
    if found is not None:
        where = "" if log is None else f" Its log is {log}."
        raise TimeoutError(f"{what}: not after {limit:.0f} s: {found}.{where}")
