"""Run a job as local processes, which are evaluated by the same code as pods."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from jobs.api.follower import Container
from jobs.api.lines import LONGEST, Line
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from jobs.model.volumes import Script
from jobs.observe.log_ends import LogEnds
from jobs.observe.outcome import details, remarks, result
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of, is_stuck
from jobs.records.archive import Run
from jobs.records.recording import Recording
from jobs.result import End, RunResult
from jobs.run.local_process import LOOPBACK, LocalProcess, now, processes

_TICK_SECONDS = 0.05
_STOP_SECONDS, _STOP_WITH_CHECKPOINT_SECONDS = 10.0, 30.0
"""Grace period between SIGTERM and SIGKILL, as in a cluster."""
_KILL_SECONDS = 5.0
_MOST_LINES = 10_000


@dataclass
class LocalRun:
    """One run of a job as local processes, with its ranks in the user's Python.

    Args:
        kept: The run's folder, named after the run's ID.
        checkpoints: A folder that outlives the run.
        show: Receives each line, with its replica's number.
        warn: Receives warnings.
    """

    job: TrainingJob
    script: Script
    python: str
    kept: Run
    checkpoints: Path
    show: Callable[[int, str], None]
    warn: Callable[[str], None]
    _replicas: list[LocalProcess] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)
    _lines: "Queue[tuple[int, Line]]" = field(default_factory=partial(Queue, _MOST_LINES))
    _ignored: tuple[type[OSError], ...] = ()  # what `show` may raise

    def to_the_end(self) -> RunResult:
        """Return the run's result, even if it failed, after all of its processes have exited.

        Raises:
            OSError: a process could not be started.
            KeyboardInterrupt: the user pressed Ctrl-C; the ranks have exited.
        """
        script = self.script.mounted
        submission = Submission(job=self.job, image="", script=script, place=VOLUME_URL)
        document = manifest(submission, labels={RUN_LABEL: self.kept.id})
        document["metadata"] |= {"uid": self.kept.id, "creationTimestamp": now()}
        self._state, began = RunState(document), time.monotonic()
        with Recording(self.kept, self._state.topology, self.warn) as self._recording:
            try:
                self._start()
                while (end := self._end(time.monotonic() - began)) is None:
                    self._drain()
            finally:
                self._stop()
            self._recording.seal()
        return self._conclude(end)

    def _start(self) -> None:
        script = self.kept.directory / "script"
        for name, content in self.script.files.items():
            (script / name).parent.mkdir(parents=True, exist_ok=True)
            (script / name).write_bytes(content)
        with socket.create_server((LOOPBACK, 0)) as free:
            port = free.getsockname()[1]
        for each in processes(self.job, self._state.job, self.kept.directory, self.python, port):
            printed = each.start(script, self.checkpoints).stdout
            self._replicas.append(each)
            reader = threading.Thread(target=self._read, args=(each.number, printed), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, number: int, printed: IO[bytes]) -> None:
        with printed:
            for raw in iter(partial(printed.readline, LONGEST), b""):
                stamp = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"
                self._lines.put((number, Line(stamp, raw.decode(errors="replace").rstrip("\n"))))

    def _drain(self) -> None:
        """Process the lines printed so far; if there are none, wait briefly."""
        new: list[tuple[int, Line]] = []
        with suppress(Empty):
            for count in range(_MOST_LINES):
                number, line = self._lines.get(timeout=0 if count else _TICK_SECONDS)
                new.append((number, line))
        for each in self._replicas:
            if lines := [line for number, line in new if number == each.number]:
                source = Container(each.number, each.name, each.name, False, False)
                self._recording.take(source, lines)
                self._state.see_sign((each.number, lines))
        for number, line in new:
            if number == 0:
                self._state.progress.see(line.text)
            with suppress(*self._ignored):
                self.show(number, line.text)

    def _end(self, elapsed: float) -> End | None:
        """Evaluate the processes as the training operator would, but without restarts."""
        state, codes = self._state, [each.code for each in self._replicas]
        state.see_pods([each.pod for each in self._replicas])
        lasted = state.lasted("a failure", elapsed, holds=any(codes))
        status: dict[str, Any] = {}
        if codes[0] == 0:
            status = {"type": "Succeeded", "message": "every rank exited with 0"}
        # Wait for failures that this one caused, or that caused it.
        elif any(codes) and (None not in codes or lasted >= 2.0):
            status = {"type": "Failed"}
        if status:
            state.job = {**state.job, "status": {"conditions": [{**status, "status": "True"}]}}
        return end_of(state, elapsed, self.job)

    def _stop(self) -> None:
        """Stop the processes: with SIGTERM, to make them print stack traces, then with SIGKILL."""
        seconds = _STOP_SECONDS if self.job.checkpoint is None else _STOP_WITH_CHECKPOINT_SECONDS
        deadline = time.monotonic() + seconds
        self._ignored = (OSError,)  # a closed terminal must not cut the grace period short
        try:
            for each in self._replicas:
                each.process.terminate()
            while None in [each.code for each in self._replicas] and time.monotonic() < deadline:
                self._drain()
        finally:
            _kill(f"SLIPWAY_RUN_ID={self.kept.id}")
            deadline = time.monotonic() + _KILL_SECONDS
            while any(each.is_alive() for each in self._readers) or not self._lines.empty():
                self._drain()
                if time.monotonic() > deadline:
                    break

    def _conclude(self, end: End) -> RunResult:
        state, logs, failure = self._state, LogEnds(self._state, self.kept), None
        if end.state != "Succeeded":
            again = f"run it again (its packages here come from {self.python})"
            failure = details(end, logs, (), self.job, again)
            if not is_stuck(state, end):  # stack traces of stopped ranks are irrelevant
                failure = replace(failure, stacks=None)
        outcome = result(end, state, now(), failure, logs.summary)
        for text in remarks(state, outcome):
            self.warn(text)
        return outcome


def _kill(variable: str) -> None:
    """Kill each process that has this variable in its environment, in any session."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        pids = []
        for file in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if variable.encode() in file.read_bytes().split(b"\0"):
                    pids.append(int(file.parent.name))
                    os.kill(pids[-1], signal.SIGKILL)
        if not pids:  # until none is left, a process may have started another
            return
        time.sleep(_TICK_SECONDS)
