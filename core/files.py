"""Atomic writes, private directories and file locks.

Imports only the standard library, because setup uses it.
"""

import errno
import fcntl
import os
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.paths import cache_dir, state_dir

LIMIT = 1800.0
"""Seconds to wait for a build or download in another process."""
COMMAND_VARIABLE = "SLIPWAY_COMMAND"
"""The environment variable that contains the user's command, which lock files record."""
_PAUSE = 0.5


def private_directory(path: Path) -> None:
    """Create a directory that only its owner can access, and any missing parents the same way."""
    if not path.parent.exists():
        private_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)  # regardless of the umask, and even if it existed


def unwritable(error: OSError) -> str | None:
    """Return a message if `error` means that this user can't use a file or disk, or else None."""
    is_refused = error.errno in {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}
    if not (is_refused and error.filename) and error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        return None  # any other refusal names a file
    place, ours = Path(str(error.filename or state_dir())), (state_dir(), cache_dir())
    if not any(place.is_relative_to(each) or each.is_relative_to(place) for each in ours):
        return f"{place}: {error.strerror}. Free up space, or let this user read and write it."
    return (
        f"{place}: {error.strerror}. Slipway keeps its state in {state_dir()}, and files that it "
        f"can recreate in {cache_dir()}: free up space, or set XDG_STATE_HOME and XDG_CACHE_HOME "
        "to directories that you can write to."
    )


def write(path: Path, text: str, *, mode: int) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash."""
    if path.exists() and not path.is_file():  # a device or pipe, such as /dev/stdout
        path.write_text(text)
        return
    path = path.resolve()  # keep a symbolic link
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            # A certificate without its matching key would keep a cluster from starting.
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno:  # a full disk's error names no file
            error.filename = str(path)
        raise


def remove(directory: Path, aside: Path) -> None:
    """Remove a directory that is complete whenever it exists, by renaming it to `aside` first."""
    shutil.rmtree(aside, ignore_errors=True)  # what a killed process has left
    with suppress(OSError):
        shutil.rmtree(directory.rename(aside))


@contextmanager
def locked(
    file: Path,
    *,
    limit: float = LIMIT,
    what: str = "",
    waiting: Callable[[str], None] = lambda _holder: None,
    cancelled: threading.Event | None = None,
) -> Iterator[None]:
    """Hold an exclusive lock on a file. The kernel releases the lock whenever this process ends.

    The file is never deleted. It describes the latest holder: process, command, purpose (`what`)
    and start time. `waiting` is called with this description, once per holder. `limit` is how many
    seconds to wait for each holder; 0 means a single attempt.

    Raises:
        InterruptedError: `cancelled` was set during the wait.
        TimeoutError: One holder kept the lock for longer than `limit`.
    """
    stop = threading.Event() if cancelled is None else cancelled
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as opened:
        began, holder = time.monotonic(), ""
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if (now := file.read_text() or "another process") != holder:
                began, holder = time.monotonic(), now
                waiting(holder)
            if time.monotonic() - began >= limit:
                raise TimeoutError(
                    f"{file} is still locked after {limit:.0f} s, by {holder}; try again once "
                    "that process has exited"
                )
            if stop.wait(_PAUSE):
                raise InterruptedError(f"interrupted while waiting for the lock {file}")
        opened.truncate(0)
        command = os.environ.get(COMMAND_VARIABLE) or shlex.join(sys.orig_argv)
        called = f"{command}: {what}".removesuffix(": ")
        opened.write(f"process {os.getpid()} ({called}) since {time.strftime('%F %T')}")
        opened.flush()
        yield
