"""How a replica's containers ended: their exit codes, reasons and messages. Pure."""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.manifests import read
from core.process import json_map
from jobs.api.lines import moment

SIGNS = read(Path(__file__).with_name("signs.yaml"))
"""What is reported of runs that do not succeed, by what it means."""
# torch marks the lines of a traceback with the rank.
_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]: )?(?P<what>(?:\w+\.)*\w*(?:Error|Exception|Interrupt|NotFound)(?:: .*)?)"
)
_TAIL_LINES, _LONGEST_EXCEPTION = 10, 200


@dataclass
class Exit:
    """How a container ended, by the state `terminated` in its status."""

    terminated: Mapping[str, Any]

    def __post_init__(self) -> None:
        state = self.terminated
        self.code = int(state["exitCode"])
        self.reason = str(state.get("reason", ""))  # Completed, Error, OOMKilled or StartError
        self.message = str(state.get("message", ""))  # its termination message
        self.started = moment(str(state.get("startedAt", "")))
        self.finished = moment(str(state.get("finishedAt", "")))
        self.container_id = short_id(state)  # a restart gets a new one
        self.out_of_memory = self.reason == "OOMKilled"

    @property
    def signal(self) -> str | None:
        """The signal that ended it, by the shell's 128 + n."""
        try:
            return signal.Signals(self.code - 128).name
        except ValueError:
            return None

    @cached_property
    def report(self) -> dict[str, Any]:
        """What the program reported in its termination message; empty when that is no JSON object.

        A user's program need not report anything; a message may be cut, or be the end of a log.
        """
        return json_map(self.message)

    @property
    def error(self) -> str | None:
        """The program's own error message, or the runtime's where it could not be started."""
        if self.report:
            return str(self.report["error"]) if "error" in self.report else None
        # Otherwise it is the end of the log, shown as such.
        return self.message.strip() or None if self.reason == "StartError" else None

    @property
    def exception(self) -> str | None:
        """The line that ends a traceback of Python's at the end of its log; None without one."""
        if self.code != 1:
            return None
        for line in reversed(self.message.splitlines()[-_TAIL_LINES:]):
            if found := _EXCEPTION.fullmatch(line.rstrip()):
                return found["what"][:_LONGEST_EXCEPTION]
        return None

    def __str__(self) -> str:
        """Describe it in a few words."""
        if self.out_of_memory:
            return "was killed: out of memory"
        if self.reason == "StartError":
            return "could not be started"
        by = f" ({self.signal})" if self.signal is not None else ""
        return f"exited with code {self.code}{by}"


def short_id(status: Mapping[str, Any]) -> str:
    """Return the id of the container in a status or state, without the runtime's name before it."""
    return str(status.get("containerID", "")).rpartition("://")[2]
