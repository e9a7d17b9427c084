"""A wait ends, and says what it last saw."""

from pathlib import Path

import pytest

from core.wait import NotYet, until, until_well
from tests.unit.row import Row


def test_a_wait_that_ends_says_what_was_the_matter_last() -> None:
    answers = iter(["starting", "listening", "listening", *["deaf"] * 9])
    told = r"timed out after 0\.3 s of waiting for x ready: \w+\. Its log is /log/x\."
    with pytest.raises(TimeoutError, match=told):
        until_well(lambda: next(answers), what="x ready", limit=0.3, log=Path("/log/x"))


def test_ctrl_c_ends_a_wait_at_once() -> None:
    def look() -> None:
        raise NotYet("starting")

    row = Row()
    row.cancelled.set()
    with pytest.raises(InterruptedError, match="interrupted while waiting for x"):
        until(look, 60, "x", row)
