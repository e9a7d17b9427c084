"""Write a run's logs to the archive while waiting for the run."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from core.files import locked, private_directory
from jobs.api.follower import Container
from jobs.api.lines import LONGEST, Cursor, Line
from jobs.model.pytorchjob import Topology
from jobs.records.archive import COMPLETE, NOTE, Run, open_private

_LOG_BYTES = 64 * 2**20
_RUN_BYTES = 2 * 2**30
_LOCK, _LOCK_SECONDS = ".lock", 10.0
T = TypeVar("T")


@dataclass
class Recording:
    """Writes a run's logs as a `Follower` passes them on.

    A disk error does not stop the run: it causes one warning, and recording stops. A lock lets only
    one process write at a time, since a killed CLI may still be exiting.
    """

    run: Run
    topology: Topology
    warn: Callable[[str], None]
    # Receives a replica's lines once, including those that an earlier process recorded.
    heard: Callable[[int, Iterable[Line]], None] = lambda *_: None
    start: Callable[[Container], Cursor] = lambda _: Cursor()  # for a log that is still empty
    _lock: ExitStack = field(default_factory=ExitStack)
    _off: bool = False

    @property
    def limit(self) -> int:
        """The maximum size of a container's log, in bytes, above which old lines are dropped."""
        return min(_LOG_BYTES, _RUN_BYTES // self.topology.replicas)

    def __enter__(self) -> "Recording":
        self._attempt(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._off = True
        self._lock.close()

    def begin(self, container: Container) -> Cursor:
        """Return the position just past the recorded lines, where reading the log resumes."""
        log = self.run.log(container.replica, container.id)
        self._attempt(lambda: _repair(log.path))
        written = self._attempt(log.cursor)
        if written is None or written.stamp is None:
            return self.start(container)
        self.heard(container.replica, log.lines())
        return written

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Write a container's next lines, and pass them to `heard`."""
        path = self.run.log(container.replica, container.id).path
        self._attempt(lambda: self._write(path, lines))
        self.heard(container.replica, lines)

    def seal(self) -> None:
        """Mark the run's logs as complete."""
        self._attempt(lambda: (self.run.directory / COMPLETE).touch(0o600))

    def _open(self) -> None:
        private_directory(self.run.directory)
        lock = self.run.directory / _LOCK
        lock.touch(0o600)
        self._lock.enter_context(locked(lock, limit=_LOCK_SECONDS))
        self.run.describe(self.topology)

    def _write(self, path: Path, lines: Sequence[Line]) -> None:
        # Files are not kept open, as a job may have a thousand logs.
        with open_private(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
        if path.stat().st_size <= self.limit:
            return
        shorter = path.with_suffix(".part")
        shorter.unlink(missing_ok=True)
        with path.open("rb") as full, open_private(shorter) as kept:
            full.seek(-(self.limit // 2), os.SEEK_END)
            full.readline()
            note = f"{NOTE} lines before these were dropped: the log exceeded {self.limit} bytes\n"
            kept.write(note.encode())
            shutil.copyfileobj(full, kept, 2**20)
        shorter.replace(path)

    def _attempt(self, step: Callable[[], T]) -> T | None:
        """Return the result of a disk operation, or None if this or an earlier one failed."""
        try:
            return None if self._off else step()
        except OSError as error:
            if not self._off:
                self._off = True
                self.warn(
                    f"the logs of {self.run.id} can't be kept in {self.run.directory}: "
                    f"{error.strerror or error}. The run continues; `make logs` shows the logs "
                    "that its pods still have"
                )
            return None


def is_recording(run: Run) -> bool:
    """Return whether a process is recording a run."""
    with suppress(TimeoutError), locked(run.directory / _LOCK, limit=0):
        return False
    return True


def _repair(path: Path) -> None:
    """Remove an incomplete last line, left by a kill or a full disk; it will be read again."""
    with open_private(path) as file:
        begin = max(0, file.seek(0, os.SEEK_END) - LONGEST * 4)
        file.seek(begin)
        file.truncate(begin + file.read().rfind(b"\n") + 1)
