"""Wait with a time limit; a timeout error contains the last observed state."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import urllib3

from core.context import Context, Silence

T = TypeVar("T")
POLL_SECONDS = 2.0


class NotYet(Exception):
    """Raised while a condition is not met; the message says what is missing.

    `after` is the number of seconds until the next poll, or None for the caller's default.
    """

    def __init__(self, missing: str, after: float | None = None) -> None:
        super().__init__(missing)
        self.after = after


def until(  # noqa: PLR0913  # the condition, its time limit, and how progress is shown
    look: Callable[[], T],
    seconds: float,
    what: str,
    context: Context,
    *,
    every: float = POLL_SECONDS,
    explain: Callable[[], str] = str,
) -> T:
    """Poll `look` until it raises neither `NotYet` nor an HTTP error, and return its result.

    `context` shows each new message; `what` names the thing to wait for. The time between two
    polls is `NotYet.after` seconds if set, or else `every`.

    Raises:
        TimeoutError: `seconds` have passed. The error contains the last message and what `explain`
            returns.
        InterruptedError: The user pressed Ctrl-C.
    """
    deadline, shown = time.monotonic() + seconds, ""
    while True:
        try:
            return look()
        except (NotYet, urllib3.exceptions.HTTPError) as error:
            missing, after = str(error), error.after if isinstance(error, NotYet) else None
            if context.cancelled.is_set():
                raise InterruptedError(f"interrupted while waiting for {what}") from error
            if time.monotonic() >= deadline:
                late = f"timed out after {seconds:g} s of waiting for {what}: {missing}"
                raise TimeoutError(late + explain()) from error
        if missing != shown:
            # A row shows one line.
            context.status(f"waiting for {what}: {' '.join(missing.split())}")
            shown = missing
        context.cancelled.wait(every if after is None else after)


def until_well(
    problem: Callable[[], str | None], *, what: str, limit: float, log: Path | None = None
) -> None:
    """Poll until `problem` returns None, or raise a `TimeoutError` after `limit` seconds."""

    def look() -> None:
        if (current := problem()) is not None:
            raise NotYet(current)

    where = "" if log is None else f". Its log is {log}."
    until(look, limit, what, Silence(), every=0.1, explain=lambda: where)
