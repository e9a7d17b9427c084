"""Files that are complete or absent, and locks by one. Set-up needs it: standard library only."""

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIMIT = 1800.0
"""Seconds that a build or a download of another process may well take."""
_PAUSE = 0.5


def private_directory(path: Path) -> None:
    """Make a directory that only its owner may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write(path: Path, text: str, *, mode: int) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old one or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            # A certificate beside another one's key would stop a cluster from starting.
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def locked(
    file: Path,
    *,
    limit: float = LIMIT,
    waiting: Callable[[], None] = lambda: None,
    cancelled: threading.Event | None = None,
) -> Iterator[None]:
    """Hold a file's lock, which the kernel takes back however this process ends.

    The file is created when it does not exist, and stays. With a `limit` of 0 s it is tried once.
    `waiting` is called once when another process holds it.

    Raises:
        InterruptedError: `cancelled` was set meanwhile.
        TimeoutError: another process held it all the time.
    """
    stop = threading.Event() if cancelled is None else cancelled
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as opened:
        began = time.monotonic()
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            waited = time.monotonic() - began
            if waited >= limit:
                raise TimeoutError(f"{file} is still held by another process after {limit:.0f} s")
            if waited < _PAUSE:
                waiting()
            if stop.wait(_PAUSE):
                raise InterruptedError(f"stopped while waiting for {file}")
        yield
