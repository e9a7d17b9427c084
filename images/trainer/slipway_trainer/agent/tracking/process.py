"""A pod's tracking as the launcher sees it: a process beside the program, a file between them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipway.checkpoints import EXIT_TERMINATED
from slipway.events import Events, own_rank

SECONDS = 10.0
"""After the program's end: for what was not sent until then. docs/tracking.md names it."""
_SECONDS_WHEN_STOPPED = 2.0
"""After a SIGTERM, of which SIGKILL follows, and the program's files are still to be copied."""
_MARGIN_SECONDS = 2.0


class Tracking:
    """The process that sends what the ranks of this pod report."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="slipway-tracking-")
        self._spool = Path(self._directory.name, "events.jsonl")
        self._spool.touch()
        # The program inherits it: `Events.emit` appends to that file.
        os.environ["SLIPWAY_EVENTS"] = str(self._spool)
        command = (sys.executable, "-m", "slipway_trainer.tracking")
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
            Events(own_rank()).emit("warning", warning=f"this run is not tracked: {error}")
            return None

    def end(self, code: int, message: dict[str, Any]) -> dict[str, Any]:
        """Let it send the rest in bounded time; return the message with the address of the run.

        Args:
            code: The program's exit code, as a shell has it.
            message: What its termination message is so far.
        """
        seconds = _SECONDS_WHEN_STOPPED if code == EXIT_TERMINATED else SECONDS
        ended = json.dumps({"code": code, "message": message, "seconds": seconds})
        try:
            self._sender.communicate(ended.encode(), timeout=seconds + _MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._sender.kill()
            text = (
                f"tracking did not end within {seconds + _MARGIN_SECONDS:g} s: some of it is lost"
            )
            Events(own_rank()).emit("warning", warning=text)
        address = self._spool.with_suffix(".address")
        found = address.read_text() if address.is_file() else ""
        os.environ.pop("SLIPWAY_EVENTS")
        self._directory.cleanup()
        return {"rank": own_rank(), **message, "tracking": found} if found else message
