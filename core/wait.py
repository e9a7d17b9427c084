"""Waits that have an end, and end with what was seen."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import urllib3

from core.context import Context, Silence

T = TypeVar("T")
POLL_SECONDS = 2.0


class NotYet(Exception):
    """What is missing, for the user; `after` some seconds it is worth another look."""

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
    """Return what `look` returns once it no longer raises `NotYet`, or finds no API server.

    `context` shows what is missing in `what` each time that it changes. Between two polls are
    `NotYet.after` seconds, else `every`.

    Raises:
        TimeoutError: after `seconds`, with what was missing last, and what `explain` adds.
        InterruptedError: the user pressed Ctrl-C.
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
                late = f"after {seconds:g} s of waiting for {what}: {missing}"
                raise TimeoutError(late + explain()) from error
        if missing != shown:
            # A row has room for one line.
            context.status(f"waiting for {what}: {' '.join(missing.split())}")
            shown = missing
        context.cancelled.wait(every if after is None else after)


def until_well(
    problem: Callable[[], str | None], *, what: str, limit: float, log: Path | None = None
) -> None:
    """Poll until `problem` returns None, or raise `TimeoutError` with it after `limit` seconds."""

    def look() -> None:
        if (found := problem()) is not None:
            raise NotYet(found)

    where = "" if log is None else f". Its log is {log}."
    until(look, limit, what, Silence(), every=0.1, explain=lambda: where)
