"""How a replica's containers ended: their exit codes, reasons and messages. Pure."""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from core.manifests import read
from core.process import json_map
from jobs.api.lines import moment

SIGNS = read(Path(__file__).with_name("signs.yaml"))
"""What is reported of runs that do not succeed, by what it means."""
_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|NotFound)(?:: .*)?")
_TAIL_LINES, _LONGEST_EXCEPTION = 10, 200
_TRACE = r"(?:.*Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*\n?)"
_LAST_TRACE = re.compile(rf"(?s:.*)^({_TRACE})", re.MULTILINE)
_ENDS_NOTHING = re.compile(
    r"^.*(?:Exception in thread|Exception ignored (?:in|on|while)|Logging error ---).*\n"
    rf"{_TRACE}(?:\n(?:During handling of|The above exception).*\n\n{_TRACE})*",
    re.MULTILINE,
)
"""A traceback of a thread, a destructor or a log's handler."""
_RANK = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""Before the lines of a traceback, by torch."""
_BORDER = re.compile(r"^ +[|+] ?", re.MULTILINE)
"""Before those of an exception group."""
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+)', re.MULTILINE)
_LIBRARIES = re.compile(r"^<|/(?:site|dist)-packages/|/lib/python3[.\d]*/|/torch/|^/opt/slipway/")
_PEER_HAS_GONE = re.compile("|".join(SIGNS["peerHasGone"]), re.IGNORECASE)


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

    @cached_property
    def exception(self) -> str | None:
        """The error that ended the program, with the user's line, in one line; None if unknown."""
        if self.code == 0 or self.out_of_memory or self.reason == "StartError":
            return None
        error, at = (self.error, self.report.get("at")) if self.report else self._raised
        line = next(filter(None, map(str.strip, (error or "").splitlines())), "")
        if not line or line.startswith("the program "):  # the launcher's, of its exit code
            return None
        return f"{line[:_LONGEST_EXCEPTION]}, {at}" if at else line[:_LONGEST_EXCEPTION]

    @property
    def lost_peer(self) -> bool:
        """Whether the program failed for want of a peer: as it recorded, or by the text it left."""
        if (origin := self.report.get("from")) is not None:
            return bool(origin == "peer")
        frames = _FRAME.findall(self._trace)
        # A tracker or a database may refuse a connection as well.
        is_torchs = not frames or "/torch/" in frames[-1][0]
        return is_torchs and _PEER_HAS_GONE.search(self._text) is not None

    @cached_property
    def _text(self) -> str:
        """What it left, without the tracebacks that ended nothing."""
        report = self.report or {"error": self.message}
        text = "\n".join(str(report.get(name, "")) for name in ("traceback", "error"))
        text = _RANK.sub("", text)
        text = _BORDER.sub("", text) if "Exception Group Traceback" in text else text
        return _ENDS_NOTHING.sub("", text)

    @cached_property
    def _trace(self) -> str:
        """The last traceback in that text; empty without one."""
        found = _LAST_TRACE.match(self._text)
        return "" if found is None else found[1]

    @property
    def _raised(self) -> tuple[str, str | None]:
        """The error of the traceback at the end of its log, and the user's line; may be empty."""
        if self.code == 1 and self._trace:
            own = [each for each in _FRAME.findall(self._trace) if not _LIBRARIES.search(each[0])]
            at = f"{PurePosixPath(own[-1][0]).name}:{own[-1][1]}" if own else None
            return self._trace.splitlines()[-1], at
        tail = reversed(self._text.splitlines()[-_TAIL_LINES:] if self.code == 1 else [])
        return next((each for each in tail if _EXCEPTION.fullmatch(each.rstrip())), ""), None

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
