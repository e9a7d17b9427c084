"""One set-up at a time: two would build into the same places. Standard library only."""

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIMIT = 2400  # seconds: a whole cold set-up, and more
_PAUSE = 1.0


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Holds a lock file; the kernel lets go of it when this process ends, however it does.

    Raises:
        TimeoutError: another process has held it for 40 minutes.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with file.open("w") as held:
        while not taken(held.fileno()):
            waited = time.monotonic() - started
            if waited > _LIMIT:
                raise TimeoutError(f"another set-up has held {file} for {waited:.0f} s")
            if waited < _PAUSE:
                print("Waiting for another set-up to end …", file=sys.stderr, flush=True)
            time.sleep(_PAUSE)
        yield


def taken(descriptor: int) -> bool:
    """Takes the lock on an open file unless another process has it; says whether it did."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
