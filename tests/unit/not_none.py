"""What a test takes for a value that has to be there."""

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """Return `value`, which fails the test that gets none."""
    assert value is not None
    return value
