"""What may take for ever gets a limit."""

import time

import pytest

from slipway_trainer.elastic.limits import together, within


def _fail() -> int:
    raise ConnectionError("nobody answers")


def _sleep() -> int:
    time.sleep(20)
    return 1


def test_what_ends_in_time_returns_or_raises_what_it_does() -> None:
    assert within(10, "adding", lambda: 1 + 1) == 2
    with pytest.raises(ConnectionError, match="nobody answers"):
        within(10, "asking", _fail)


def test_what_takes_longer_is_named_and_left_behind() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"asking took longer than 0\.1 s"):
        within(0.1, "asking", _sleep)
    assert time.monotonic() - began < 10


def test_of_several_those_that_end_well_and_in_time_are_returned() -> None:
    began = time.monotonic()
    assert together(2, {0: lambda: 0, 1: _fail, 2: _sleep, 3: lambda: 3}) == {0: 0, 3: 3}
    assert time.monotonic() - began < 10
