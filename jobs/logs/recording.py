"""Writes the logs of a run that is waited for into the archive."""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from jobs.logs.archive import COMPLETE, NOTE, Run
from jobs.logs.follower import Container
from jobs.logs.lines import LONGEST, Cursor, Line
from jobs.topology import Topology

_LOG_BYTES = 64 * 2**20
_RUN_BYTES = 2 * 2**30
_LOCK_SECONDS = 10.0
_BLOCK = 2**20


@dataclass
class Recording:
    """A run's logs as they are being written.

    Whatever becomes of the disk, the run goes on: what can't be written is warned of once, and not
    kept. One process writes at a time: a CLI that was killed may still be ending.

    Args:
        run: Where to.
        topology: Of the run; the more replicas, the less is kept of each.
        warn: Takes the warning.
    """

    run: Run
    topology: Topology
    warn: Callable[[str], None]
    _files: dict[str, FileIO] = field(default_factory=dict)
    _lock: FileIO | None = None
    _off: bool = False

    @property
    def limit(self) -> int:
        """How many bytes of a container's log are kept at most: the newest."""
        return min(_LOG_BYTES, _RUN_BYTES // self.topology.replicas)

    def __enter__(self) -> "Recording":
        try:
            self._begin()
        except OSError as error:
            self._fail(error)
        return self

    def __exit__(self, *_: object) -> None:
        self._off = True
        for file in (*self._files.values(), self._lock):
            if file is not None:
                file.close()

    def open(self, container: Container) -> Cursor:
        """Return how far the log of a container is written, after repairing a half-written end."""
        if self._off:
            return Cursor()
        log = self.run.log(container.replica, container.id)
        try:
            if container.id not in self._files:
                self._files[container.id] = _opened(log.path)
                _repair(log.path)
            return log.cursor()
        except OSError as error:
            self._fail(error)
            return Cursor()

    def kept(self, container: Container) -> Iterator[Line]:
        """Yield the lines that are written of a container's log."""
        return self.run.log(container.replica, container.id).lines()

    def close(self, container: Container) -> None:
        """Be done with the log of a container for now: of a thousand not all can be open."""
        file = self._files.pop(container.id, None)
        if file is not None:
            file.close()

    def write(self, container: Container, lines: Sequence[Line]) -> None:
        """Add lines to the log of a container that was opened."""
        file = self._files.get(container.id)
        if self._off or file is None:
            return
        try:
            rest = memoryview("".join(f"{line}\n" for line in lines).encode())
            while rest:
                rest = rest[file.write(rest) :]
            if file.tell() > self.limit:
                self._cut(container)
        except OSError as error:
            self._fail(error)

    def seal(self) -> None:
        """Note that the run's logs were read to their ends."""
        if not self._off:
            try:
                (self.run.directory / COMPLETE).touch(0o600)
            except OSError as error:
                self._fail(error)

    def _begin(self) -> None:
        _make_private(self.run.directory)
        self._lock = _opened(self.run.directory / ".lock")
        _locked(self._lock)
        self.run.describe(self.topology)

    def _cut(self, container: Container) -> None:
        """Keep the newer half of a log."""
        log = self.run.log(container.replica, container.id)
        old = self._files[container.id]
        shorter = log.path.with_suffix(".part")
        with log.path.open("rb") as full, _opened(shorter) as kept:
            full.seek(-(self.limit // 2), os.SEEK_END)
            full.readline()
            note = f"{NOTE} lines before these were dropped: the log grew over {self.limit} bytes\n"
            kept.write(note.encode())
            shutil.copyfileobj(full, kept, _BLOCK)
        shorter.replace(log.path)
        old.close()
        self._files[container.id] = _opened(log.path)

    def _fail(self, error: OSError) -> None:
        if not self._off:
            self._off = True
            self.warn(
                f"the logs of {self.run.id} are not kept in {self.run.directory}: "
                f"{error.strerror or error}. The run goes on; `make logs` shows what its pods have"
            )


@dataclass
class Recorder:
    """Keeps the lines of a run's containers, and passes one replica's on.

    Args:
        recording: Where they are kept; None to keep none.
        speak: Takes the text of each line of the replica that speaks for the run.
        speaker: That replica.
    """

    recording: Recording | None
    speak: Callable[[str], None]
    speaker: int = 0

    def begin(self, container: Container, known: Cursor | None) -> Cursor:
        """Go on where an earlier process stopped; what it has kept is passed on once, too."""
        if self.recording is None:
            return Cursor() if known is None else known
        kept = self.recording.open(container)
        if known is not None:
            return known
        if container.replica == self.speaker and kept.stamp is not None:
            for line in self.recording.kept(container):
                self.speak(line.text)
        return kept

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Keep lines, and pass them on."""
        if self.recording is not None:
            self.recording.write(container, lines)
        if container.replica == self.speaker:
            for line in lines:
                self.speak(line.text)

    def end(self, container: Container) -> None:
        """Leave the container's log for now."""
        if self.recording is not None:
            self.recording.close(container)


def _make_private(directory: Path) -> None:
    """Make a directory and those above it, for their owner alone; mkdir's `parents` would not."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _opened(path: Path) -> FileIO:
    """Open a log for adding to it, made with rights for its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def _locked(file: FileIO) -> None:
    """Take the lock of a run; it goes with the process that holds it.

    Raises:
        OSError: another process holds on to it, or the file system has no locks.
    """
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _repair(path: Path) -> None:
    """Cut off a last line that a kill or a full disk left half-written: it is read again."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(0, size - LONGEST * 2)
        file.seek(begin)
        end = file.read().rfind(b"\n")
        file.truncate(begin + end + 1)
