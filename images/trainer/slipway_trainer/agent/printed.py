"""Numbers that a program only prints, found in its lines by the patterns of a job's `metrics`.

    python3 -m slipway_trainer.agent.printed '{"accuracy": "accuracy=([0-9.]+)"}' 0.log

Each is reported as `slipway.log` does; `epoch` and `step` place those that come with and after
them. As a command it reads a log as a kubelet has it, and writes the message that is left then.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any

from slipway import reporting
from slipway.events import Events, own_rank, reported
from slipway_trainer.agent.artifacts import time_limit

METRICS = "SLIPWAY_METRICS"
"""What to look for: a pattern by each number's name, as JSON."""
_SECONDS = 1.0
"""A pattern that takes longer for a line, as `(a+)+b` may for ever, is given up."""
_COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Lines:
    """Passes what is written to it on to a file, in whole lines, and gives each to `see` then."""

    def __init__(self, sink: IO[bytes], see: Callable[[str], None]) -> None:
        self._sink, self._see, self._open = sink, see, b""
        self.flush = sink.flush

    def write(self, piece: bytes) -> None:
        """Take what comes next; nothing is the end."""
        *whole, self._open = (self._open + piece).split(b"\n")
        if self._open and (not piece or len(self._open) > 256 * 1024):  # taken for one
            whole, self._open = [*whole, self._open], b""
        for line in whole:
            self._sink.write(line + b"\n")
            self._see(line.decode(errors="replace"))


class Search:
    """Looks for numbers in lines; in the main thread alone, where a search can be interrupted."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._place: dict[str, int] = {}
        self._reports = 0
        # A program that is quicker is held up: a number may be in any line.
        self.lines: queue.Queue[str | None] = queue.Queue(1000)

    def until(self, end: Callable[[], None], prefix: str) -> None:
        """Search the `lines`, from a rank's prefix to the next one's, until `end` has returned."""

        def wait() -> None:
            end()
            self.lines.put(None)

        threading.Thread(target=wait, daemon=True).start()
        every = iter(self.lines.get, None)
        if prefix:
            parts = (part for line in every for part in re.split(r"(?=\[\d+\] )", line))
            every = (part.removeprefix(prefix) for part in parts if part.startswith(prefix))
        self.see(every)

    def see(self, lines: Iterable[str]) -> None:
        """Report the numbers of each line, of each the last one: so a bar has its latest state."""
        for line in lines:
            # What was reported already is in a log, too.
            is_event = reported(line).keys() >= {"event", "rank", "time"}
            found = {} if is_event else self._found(line)
            for name in {"epoch", "step"} & found.keys():
                if isinstance(number := found.pop(name), float) and number.is_integer():
                    self._place[name] = int(number)
            if found:
                self._reports += 1
                reporting.log(**{**(self._place or {"step": self._reports}), **found})

    def _found(self, line: str) -> dict[str, Any]:
        drawn = [each[:4096] for each in reversed(_COLORS.sub("", line).split("\r"))]
        found, name = dict[str, Any](), ""
        try:
            with time_limit(_SECONDS, "searching a line"):
                for name, pattern in self._patterns.items():
                    if text := _last(pattern, drawn):
                        found[name] = _number(text)
        except TimeoutError as error:
            del self._patterns[name]
            Events(own_rank()).emit("warning", warning=f"`metrics.{name}` is given up: {error}")
        return found


def _last(pattern: re.Pattern[str], drawn: Sequence[str]) -> str | None:
    """Return what the first named group has, or the first one, the last time that it matches."""
    group = min(pattern.groupindex.values(), default=1)
    found = ([match[group] for match in pattern.finditer(text)] for text in drawn)
    return next((each for texts in found for each in reversed(texts) if each), None)


def _number(text: str) -> float | str:
    """Return a number, which a sentence may end with; a text that is none, to be warned of."""
    try:
        return float(text.strip().rstrip(".,;%"))
    except ValueError:
        return text


if __name__ == "__main__":
    with Path(sys.argv[2]).open("rb") as log, redirect_stdout(Path(os.devnull).open("w")):
        lines = (line[:-1].partition(b" ")[2].decode(errors="replace") for line in log)
        Search(json.loads(sys.argv[1])).see(lines)
    print(json.dumps(reporting.logged()))
