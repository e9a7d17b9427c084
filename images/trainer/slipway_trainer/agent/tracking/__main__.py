"""The process beside a pod's program: `slipway_trainer.launch` starts it.

    python3 -m slipway_trainer.tracking

It reads the file SLIPWAY_EVENTS. When the program has ended it gets {"code", "message", "seconds"}
on its standard input, and ends itself after so many seconds at the latest, also while it waits for
a server; a warning among its rank's events then names what was lost.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from slipway.events import Events
from slipway_trainer.agent.tracking.process import SECONDS
from slipway_trainer.agent.tracking.sender import End, Sender
from slipway_trainer.agent.tracking.sinks import Run, sink_of
from slipway_trainer.training import report


def main() -> None:
    """Send until the program has ended, and end the process."""
    os.nice(19)  # the program comes first
    spool, run = Path(os.environ.pop("SLIPWAY_EVENTS")), Run.from_environment(os.environ)
    try:
        sender = Sender(run, sink_of(run), spool)
    except Exception as error:  # noqa: BLE001 - whatever a package raises that is imported
        _warn(run, f"this run is not tracked: {error}")
        report.end(1)
    threading.Thread(target=_await_end, args=(sender,), daemon=True).start()
    try:
        sender.work()
    except Exception as error:  # noqa: BLE001 - whatever a sink's package raises
        sender.why = f"{type(error).__name__}: {error}"
    _end(sender)


def _await_end(sender: Sender) -> None:
    """End the process in time, whatever it does meanwhile."""
    try:
        ended = json.loads(sys.stdin.read())
    except ValueError:  # the launcher was killed
        ended = {"code": 1, "message": {}, "seconds": SECONDS}
    sender.end = End(ended["code"], ended["message"])
    sender.has_ended.set()
    time.sleep(ended["seconds"])
    _end(sender)


_ends = threading.Lock()


def _end(sender: Sender) -> None:
    with _ends:  # never released: the other thread waits here until the process has ended
        if (lost := sender.lost()) is not None:
            where = sender.run.url or os.environ["SLIPWAY_TRACKING"]
            text = f"{lost} did not reach {where}: {sender.why}. The log of this run has all events"
            _warn(sender.run, text)
        report.end(0)


def _warn(run: Run, text: str) -> None:
    Events(run.rank).emit("warning", warning=text)


if __name__ == "__main__":
    main()
