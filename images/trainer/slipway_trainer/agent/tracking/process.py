"""A pod's tracking: a process beside the program, and a file between them.

    python3 -m slipway_trainer.agent.tracking.process

It reads the file SLIPWAY_EVENTS. When the program has ended it gets {"code", "message", "seconds"}
on its standard input, and ends itself after so many seconds at the latest; a warning among its
rank's events then names what was lost.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from slipway.checkpoints import EXIT_TERMINATED
from slipway.events import Events, own_rank
from slipway_trainer.training import report

if TYPE_CHECKING:
    from slipway_trainer.agent.tracking.sender import Sender

_SECONDS = 10.0
"""After the program's end: for what was not sent until then. docs/tracking.md names it."""
_ends = threading.Lock()


class Tracking:
    """The process that sends what the ranks of this pod report."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="slipway-tracking-")
        self._spool = Path(self._directory.name, "events.jsonl")
        self._spool.touch()
        # The program inherits it: `Events.emit` appends to that file.
        os.environ["SLIPWAY_EVENTS"] = str(self._spool)
        command = (sys.executable, "-m", "slipway_trainer.agent.tracking.process")
        # A session of its own: the launcher ends it, and no signal that is meant for the program.
        self._sender = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    @classmethod
    def begun(cls) -> "Tracking | None":
        """Begin it where SLIPWAY_TRACKING names a server; None where it doesn't, or it can't be."""
        if "SLIPWAY_TRACKING" not in os.environ:
            return None
        try:
            return cls()
        except OSError as error:
            os.environ.pop("SLIPWAY_EVENTS", None)
            _warn(own_rank(), f"this run is not tracked: {error}")
            return None

    def end(self, code: int, message: dict[str, Any]) -> dict[str, Any]:
        """Let it send the rest in bounded time; return the message with the address of the run."""
        # SIGKILL follows a SIGTERM, and the program's files are still to be copied.
        seconds = 2.0 if code == EXIT_TERMINATED else _SECONDS
        limit = seconds + 2.0
        ended = json.dumps({"code": code, "message": message, "seconds": seconds})
        try:
            self._sender.communicate(ended.encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            self._sender.kill()
            _warn(own_rank(), f"tracking did not end within {limit:g} s: some of it is lost")
        address = self._spool.with_suffix(".address")
        found = address.read_text() if address.is_file() else ""
        os.environ.pop("SLIPWAY_EVENTS")
        self._directory.cleanup()
        return {"rank": own_rank(), **message, "tracking": found} if found else message


def main() -> None:
    """Send until the program has ended, and end the process."""
    # Where nothing is tracked the launcher imports none of it.
    from slipway_trainer.agent.tracking.sender import Sender  # noqa: PLC0415
    from slipway_trainer.agent.tracking.sinks import Run, sink_of  # noqa: PLC0415

    os.nice(19)  # the program comes first
    spool, run = Path(os.environ.pop("SLIPWAY_EVENTS")), Run.from_environment()
    try:
        sender = Sender(run, sink_of(run), spool)
    except Exception as error:  # noqa: BLE001 - whatever a package raises that is imported
        _warn(run.rank, f"this run is not tracked: {error}")
        report.end(1)
    threading.Thread(target=_await_end, args=(sender,), daemon=True).start()
    try:
        sender.work()
    except Exception as error:  # noqa: BLE001 - whatever a sink's package raises
        sender.why = f"{type(error).__name__}: {error}"
    _end(sender)


def _await_end(sender: "Sender") -> None:
    """End the process in time, whatever it does meanwhile."""
    try:
        ended = json.loads(sys.stdin.read())
    except ValueError:  # the launcher was killed
        ended = {"code": 1, "message": {}, "seconds": _SECONDS}
    sender.conclude(ended["code"], ended["message"])
    time.sleep(ended["seconds"])
    _end(sender)


def _end(sender: "Sender") -> None:
    with _ends:  # never released: the other thread waits here until the process has ended
        if (lost := sender.lost()) is not None:
            where = sender.run.url or os.environ["SLIPWAY_TRACKING"]
            text = f"{lost} did not reach {where}: {sender.why}. The log of this run has all events"
            _warn(sender.run.rank, text)
        report.end(0)


def _warn(rank: int, text: str) -> None:
    Events(rank).emit("warning", warning=text)


if __name__ == "__main__":
    main()
