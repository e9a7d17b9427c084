"""One at a time: a lock that goes with the process that holds it."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT = 1800.0
_PAUSE = 0.5


class Cancelled(Exception):
    """The person asked to stop."""


@contextmanager
def exclusively(
    lock: Path, *, cancelled: threading.Event, waiting: Callable[[], None], limit: float = LIMIT
) -> Iterator[None]:
    """Hold the file `lock`, which no two processes can do at once.

    Args:
        lock: Is made when it isn't there, and stays.
        cancelled: Ends the wait for it.
        waiting: Is called once when another process holds it.
        limit: Seconds to wait for it.

    Raises:
        Cancelled: `cancelled` was set meanwhile.
        TimeoutError: another process held it all the time.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        began = time.monotonic()
        while not _taken(descriptor):
            if time.monotonic() - began < _PAUSE:
                waiting()
            if time.monotonic() - began > limit:
                raise TimeoutError(f"{lock} is still held by another process after {limit:.0f} s")
            if cancelled.wait(_PAUSE):
                raise Cancelled(f"stopped while waiting for {lock}")
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
