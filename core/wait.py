"""Waits that have an end, and end with what was seen."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import tenacity
import urllib3

from core.context import Context

T = TypeVar("T")
POLL_SECONDS = 2.0


class NotYet(Exception):
    """What is missing, as seen just now."""


def until(  # noqa: PLR0913  # what is waited for, for how long, and how that is told
    look: Callable[[], T],
    seconds: float,
    what: str,
    context: Context,
    *,
    every: float | None = None,
    overdue: Callable[[str], str] | None = None,
) -> T:
    """Return what `look` returns once it no longer raises `NotYet`, or finds no API server.

    Args:
        look: Asked again and again.
        seconds: How long.
        what: That is waited for, in words.
        context: Where to show what is missing, each time that it is something else.
        every: Seconds between two looks; `POLL_SECONDS` unless said.
        overdue: Says, from what was missing at last, what the person is told when time is up.

    Raises:
        TimeoutError: after `seconds`, with what `overdue` says, or else what was missing at last.
        InterruptedError: the person pressed Ctrl-C.
    """
    shown = ""

    def say(state: tenacity.RetryCallState) -> None:
        nonlocal shown
        missing = str(state.outcome.exception()) if state.outcome is not None else ""
        if missing != shown:
            # A row has room for one line.
            context.status(f"waiting for {what}: {' '.join(missing.split())}")
            shown = missing

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((NotYet, urllib3.exceptions.HTTPError)),
        stop=tenacity.stop_any(
            tenacity.stop_after_delay(seconds), tenacity.stop_when_event_set(context.cancelled)
        ),
        wait=tenacity.wait_fixed(POLL_SECONDS if every is None else every),
        sleep=tenacity.sleep_using_event(context.cancelled),
        before_sleep=say,
        reraise=True,
    )
    try:
        return attempts(look)
    except (NotYet, urllib3.exceptions.HTTPError) as error:
        if context.cancelled.is_set():
            raise InterruptedError(f"interrupted while waiting for {what}") from error
        told = f"after {seconds:g} s of waiting for {what}: {error}"
        raise TimeoutError(told if overdue is None else overdue(str(error))) from error


def until_well(
    problem: Callable[[], str | None], *, what: str, limit: float, log: Path | None = None
) -> None:
    """Ask every 0.1 s until there is no problem.

    Args:
        problem: Returns what the problem is, or None.
        what: What is waited for, as the error names it.
        limit: Seconds.
        log: Where to read more.

    Raises:
        TimeoutError: there still was one after `limit` seconds; says which.
    """
    retrying = tenacity.Retrying(
        wait=tenacity.wait_fixed(0.1),
        stop=tenacity.stop_after_delay(limit),
        retry=tenacity.retry_if_result(lambda found: found is not None),
        # The last answer instead of a RetryError.
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    found: str | None = retrying(problem)
    if found is not None:
        where = "" if log is None else f" Its log is {log}."
        raise TimeoutError(f"{what}: not after {limit:.0f} s: {found}.{where}")
