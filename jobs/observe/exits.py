"""Exits of a replica's containers: their codes, reasons and messages."""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.manifests import read
from jobs.api.lines import moment
from slipway.events import json_map
from slipway.uncaught import FRAME, in_text, relevant

SIGNS = read(Path(__file__).with_name("signs.yaml"))
"""Patterns in failed runs' reports, and messages about them, grouped by meaning."""
_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|NotFound)(?:: .*)?")
_PEER_LOST = re.compile("|".join(SIGNS["peerHasGone"]), re.IGNORECASE)


@dataclass
class Exit:
    """A container's exit, from the `terminated` state in its status."""

    terminated: Mapping[str, Any]

    def __post_init__(self) -> None:
        state = self.terminated
        self.code = int(state["exitCode"])
        self.reason = str(state.get("reason", ""))  # Completed, Error, OOMKilled or StartError
        self.message = str(state.get("message", ""))  # its termination message
        self.started = moment(str(state.get("startedAt", "")))
        self.finished = moment(str(state.get("finishedAt", "")))
        self.container_id = short_id(state)  # each restart gets a new one
        self.out_of_memory = self.reason == "OOMKilled"

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the program, from the exit code 128 + n, or None."""
        try:
            return signal.Signals(self.code - 128).name
        except ValueError:
            return None

    @cached_property
    def report(self) -> dict[str, Any]:
        """The program's report from its termination message; empty if the message is not JSON."""
        return json_map(self.message)

    @property
    def error(self) -> str | None:
        """The program's error message, or the runtime's if the program could not be started."""
        if self.report:
            return str(self.report["error"]) if "error" in self.report else None
        # Otherwise the message is the end of the log.
        return self.message.strip() or None if self.reason == "StartError" else None

    @cached_property
    def exception(self) -> str | None:
        """The error that ended the program and its line in the user's code, or None if unknown."""
        if self.code == 0 or self.out_of_memory or self.reason == "StartError":
            return None
        record = self.report or (self._raised if self.code == 1 else {})
        line = next(filter(None, map(str.strip, str(record.get("error", "")).splitlines())), "")
        if not line or line.startswith("the program "):  # the launcher's text about the exit code
            return None
        shown, at = line[:200], record.get("at")
        return f"{shown}, {at}" if at else shown

    @property
    def lost_peer(self) -> bool:
        """True if the program failed because it lost a peer, judging by its report or output."""
        if (origin := self.report.get("from")) is not None:
            return bool(origin == "peer")
        # The kubelet keeps 2 KiB, which may lack the header that begins a traceback.
        frames = FRAME.findall(self._raised.get("traceback") or self._text)
        # A tracker or a database may also refuse a connection.
        is_torchs = not frames or "/torch/" in frames[-1][0]
        return is_torchs and _PEER_LOST.search(self._text) is not None

    @cached_property
    def _text(self) -> str:
        """The final output, without the tracebacks of handled errors."""
        report = self.report or {"error": self.message}
        return relevant("\n".join(str(report.get(name, "")) for name in ("traceback", "error")))

    @cached_property
    def _raised(self) -> dict[str, Any]:
        """The final output's last traceback, in report format, or else the error at its end."""
        tail = reversed(self._text.splitlines()[-10:])
        errors = (each for each in tail if _EXCEPTION.fullmatch(each.rstrip()))
        return in_text(self._text) or {"error": next(errors, "")}

    def __str__(self) -> str:
        if self.out_of_memory:
            return "was killed: out of memory"
        if self.reason == "StartError":
            return "could not be started"
        by = f" ({self.signal})" if self.signal is not None else ""
        return f"exited with code {self.code}{by}"


def short_id(status: Mapping[str, Any]) -> str:
    """Return the container ID from a status or state, without the runtime's prefix."""
    return str(status.get("containerID", "")).rpartition("://")[2]
