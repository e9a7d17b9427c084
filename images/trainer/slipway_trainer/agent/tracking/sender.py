"""Read the events from a pod's ranks from a file, and send them while the program is running.

The file is the buffer: unsent events stay in it and are retried with increasing pauses; only one
batch is in memory. After the program exits, a few seconds are left to send the rest.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from slipway.events import SPOOL_BYTES, reported
from slipway_trainer.agent.artifacts import sort
from slipway_trainer.agent.tracking import figures, sinks
from slipway_trainer.agent.tracking.sinks import Dataset, RefusedError, Run, Sink, Texts
from slipway_trainer.agent.tracking.usage import Usage

_LOOK_SECONDS, _LONGEST_PAUSE, _PAUSE_AT_END = 2.0, 30.0, 0.5
LARGEST_FILE = 64 * 2**20
"""Maximum size in bytes of a file that is sent to the server."""


@dataclass
class Batch:
    """Lines read from the file but not sent yet; `until` is the offset of the next line."""

    until: int
    lines: int = 0
    points: list[figures.Point] = field(default_factory=list)
    started: Mapping[str, Any] | None = None


class Sender:
    """Sends the events in `spool`, one per line, to the run's `sink`."""

    def __init__(self, run: Run, sink: Sink, spool: Path) -> None:
        self.run, self.sink, self.spool = run, sink, spool
        self._code, self._message = 1, dict[str, Any]()
        self._has_ended = threading.Event()
        self.files_left: list[Path] | None = None
        self.why = "the server did not respond"
        self._figures = figures.Figures()
        self._is_open = self._is_closed = False
        self._sent = self._refused = 0
        self._has_facts = True
        self._declared = sinks.declared_dataset(run.facts.get("data"))
        self._batch: Batch | None = None
        self._usage, self._used = Usage(run.rank), deque[figures.Point](maxlen=1000)

    def conclude(self, code: int, message: dict[str, Any]) -> None:
        """Finish `work`: the program has exited with this code and termination message."""
        self._code, self._message = code, message
        self._has_ended.set()

    def work(self) -> None:
        """Send events until the program has exited and everything is sent.

        Raises any exception that the sink's library raises.
        """
        pause, is_last = _LOOK_SECONDS, False
        while True:
            if not is_last:
                is_last = self._has_ended.is_set()  # lines before the end are read after this check
                # At most once in that many seconds.
                self._used += self._usage.points(1.0 if is_last else 10.0)
            try:
                self._open()
                while self._send_some():
                    pass
                if is_last:
                    self._finish()
                    return
                pause = _LOOK_SECONDS
            except OSError as error:
                self.why = str(error)
                pause = min(2 * pause, _LONGEST_PAUSE)
            if is_last:
                time.sleep(_PAUSE_AT_END)
            else:
                self._has_ended.wait(pause)

    def lost(self) -> str | None:
        """Describe what was not sent; return None if everything was."""
        with self.spool.open("rb") as file:
            file.seek(self._sent)
            events = self._refused + sum(1 for _ in file)
        lost = {
            "the run": not self._is_open,
            f"{events} events": events > 0,
            "later events, for want of room": self.spool.stat().st_size >= SPOOL_BYTES,
            "parameters": not self._has_facts,
            f"{len(self.files_left or ())} files": bool(self.files_left),
            "the end of the run": self._is_open and not self._is_closed,
        }
        return ", ".join(what for what, is_lost in lost.items() if is_lost) or None

    def _open(self) -> None:
        if self._is_open:
            return
        try:
            address = self.sink.open()
        except RefusedError as error:
            raise OSError(str(error)) from None  # a later attempt may succeed
        if address is not None:
            with suppress(OSError):  # a full disk
                self.spool.with_suffix(".address").write_text(address)
        if self.run.is_first:
            facts = self.run.facts
            texts = {name: str(facts[name]) for name in ("image", "revision") if name in facts}
            settings = figures.settings(facts.get("settings", {}))
            self._describe(settings, {"run_id": self.run.id, **texts}, self._declared)
        self._is_open, self.why = True, "time ran out"

    def _send_some(self) -> bool:
        """Send a batch; return False if there is none."""
        if self._batch is None:
            self._batch = self._read()
        if (batch := self._batch) is None:
            return False
        if (started := batch.started) is not None:
            data = sinks.dataset_in_directory(started) if self._declared is None else None
            self._describe(figures.parameters(started), figures.tags(started), data)
        self._metrics(batch.points, batch.lines)
        self._sent, self._batch = batch.until, None
        return True

    def _metrics(self, points: Sequence[figures.Point], events: int) -> None:
        if points and not self._taken(lambda: self.sink.metrics(points)):
            self._refused += events

    def _describe(self, params: Texts, tags: Texts, data: Dataset | None = None) -> None:
        self._has_facts &= self._taken(lambda: self.sink.describe(params, tags, data))

    def _taken(self, send: Callable[[], None]) -> bool:
        """Call `send`; return False if the server refused the data."""
        try:
            send()
        except RefusedError as error:
            self.why = str(error)
            return False
        return True

    def _read(self) -> Batch | None:
        """Return the next batch of complete lines; None if there are none."""
        batch = Batch(self._sent)
        with self.spool.open("rb") as file:
            file.seek(self._sent)
            for line in islice(file, 200):
                if not line.endswith(b"\n"):
                    break
                batch.until += len(line)
                batch.lines += 1
                event = reported(line.decode(errors="replace"))
                batch.points += self._figures.points(event)
                if self.run.is_first and event.get("event") == "started" and event.get("rank") == 0:
                    batch.started = event
        batch.points += self._used
        self._used.clear()
        return batch if batch.lines or batch.points else None

    def _finish(self) -> None:
        """Send the program's result and files, after the program has exited."""
        message, is_success = self._message, self._code == 0
        # In an elastic job, the worker that is rank 0 at the end has the result.
        ends_run = self.run.is_first or (is_success and message.get("rank") == 0)
        if ends_run:
            state = {"state": "Succeeded" if is_success else "Failed"}
            self._describe({}, figures.tags(message) | state)
            self._metrics(self._figures.finals(message, int(time.time() * 1000)), 1)
            self._send_files()
        self.sink.close(is_success=is_success, ends_run=ends_run)
        self._is_closed = True

    def _send_files(self) -> None:
        """Send the program's files, smallest first, until one is refused."""
        if self.files_left is None:
            sizes = {path: path.stat().st_size for path in sort(self.run.outputs)[0].values()}
            chosen = [path for path in sizes if sizes[path] <= LARGEST_FILE]
            self.files_left = sorted(chosen, key=lambda path: sizes[path])
        while self.files_left:
            path = self.files_left[0]
            name = path.relative_to(self.run.outputs).as_posix()
            if not self._taken(partial(self.sink.artifact, path, name)):
                return
            self.files_left.pop(0)
