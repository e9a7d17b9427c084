"""Tracking for a pod: a separate process that reads events from a file.

    python3 -m slipway_trainer.agent.tracking.process

The file is SLIPWAY_EVENTS. When the program exits, the process receives {"code", "message",
"seconds"} on standard input, and exits within `seconds` seconds. If the process could not send all
data, it emits a warning event.
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
"""Seconds to send the remaining events after the program exits; also in docs/tracking.md."""
_ends = threading.Lock()


class Tracking:
    """The process that sends the events from this pod's ranks."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="slipway-tracking-")
        self._spool = Path(self._directory.name, "events.jsonl")
        self._spool.touch()
        # The program inherits the variable: `Events.emit` appends to that file.
        os.environ["SLIPWAY_EVENTS"] = str(self._spool)
        command = (sys.executable, "-m", "slipway_trainer.agent.tracking.process")
        # In a new session, so that only the launcher ends it, not a signal sent to the program.
        self._sender = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    @classmethod
    def begun(cls) -> "Tracking | None":
        """Start tracking; return None if SLIPWAY_TRACKING is not set or starting fails."""
        if "SLIPWAY_TRACKING" not in os.environ:
            return None
        try:
            return cls()
        except OSError as error:
            os.environ.pop("SLIPWAY_EVENTS", None)
            Events(own_rank()).warning(f"this run is not tracked: {error}")
            return None

    def end(self, code: int, message: dict[str, Any]) -> dict[str, Any]:
        """Make the process send the rest and exit; return `message` with the run's URL, if any."""
        # SIGKILL follows a SIGTERM, and the program's files must still be copied.
        seconds = 2.0 if code == EXIT_TERMINATED else _SECONDS
        limit = seconds + 2.0
        ended = json.dumps({"code": code, "message": message, "seconds": seconds})
        try:
            self._sender.communicate(ended.encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            self._sender.kill()
            Events(own_rank()).warning(f"tracking did not finish within {limit:g} s: data was lost")
        address = self._spool.with_suffix(".address")
        url = address.read_text() if address.is_file() else ""
        os.environ.pop("SLIPWAY_EVENTS")
        self._directory.cleanup()
        return {"rank": own_rank(), **message, "tracking": url} if url else message


def main() -> None:
    """Send events until the program has exited, then exit."""
    # Imported here, so that the launcher of an untracked run does not load it.
    from slipway_trainer.agent.tracking.sender import Sender  # noqa: PLC0415
    from slipway_trainer.agent.tracking.sinks import Run, sink_of  # noqa: PLC0415

    os.nice(19)  # the program comes first
    spool, run = Path(os.environ.pop("SLIPWAY_EVENTS")), Run.from_environment()
    try:
        sender = Sender(run, sink_of(run), spool)
    except Exception as error:  # noqa: BLE001 - importing a package may raise anything
        Events(run.rank).warning(f"this run is not tracked: {error}")
        report.end(1)
    threading.Thread(target=_await_end, args=(sender,), daemon=True).start()
    try:
        sender.work()
    except Exception as error:  # noqa: BLE001 - a sink's package may raise anything
        sender.why = f"{type(error).__name__}: {error}"
    _end(sender)


def _await_end(sender: "Sender") -> None:
    """Wait until the program has exited, then exit in time, whatever the sender is doing."""
    try:
        ended = json.loads(sys.stdin.read())
    except ValueError:  # the launcher was killed
        ended = {"code": 1, "message": {}, "seconds": _SECONDS}
    sender.conclude(ended["code"], ended["message"])
    time.sleep(ended["seconds"])
    _end(sender)


def _end(sender: "Sender") -> None:
    with _ends:  # never released: the other thread waits here until the process exits
        if (lost := sender.lost()) is not None:
            where = sender.run.url or os.environ["SLIPWAY_TRACKING"]
            text = f"{lost} did not reach {where}: {sender.why}. The run's log contains all events"
            Events(sender.run.rank).warning(text)
        report.end(0)


if __name__ == "__main__":
    main()
