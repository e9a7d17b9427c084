"""Numbers that a program only prints, found in its lines by a job's `metrics`.

    python3 -m slipway.printed '{"accuracy": "accuracy=([0-9.]+)"}' 0.log

Each is reported as `slipway.log` does. The names `epoch` and `step` are not numbers of their own:
they place those that are found with and after them. As a command it reads a log whose lines begin
with a time, and writes the message that a program with the same numbers leaves.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any

from slipway import reporting
from slipway.events import Events, own_rank, reported

METRICS = "SLIPWAY_METRICS"
"""What to look for in what a program prints: a pattern by each number's name, as JSON."""
PLACES = frozenset({"epoch", "step"})
LONGEST = 4096
"""Characters of a line, or of one state of a progress bar, that are searched."""
_MOST_BYTES = 256 * 1024
"""Of a line that does not end, so much is taken for one."""
_MOST_LINES = 1000
_SECONDS = 1.0
"""A pattern that takes longer for a line, as `(a+)+b` may for ever, is given up."""
_EVENT = {"event", "rank", "time"}
_COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Lines:
    """Passes what is written to it on to a file, in whole lines, and gives each to `see` then.

    A container's log has no others, and so nothing that `see` leads to comes within one.
    """

    def __init__(self, sink: IO[bytes], see: Callable[[str], None]) -> None:
        self._sink, self._see, self._open = sink, see, b""
        self.flush = sink.flush

    def write(self, piece: bytes) -> None:
        """Take what comes next; nothing is the end."""
        *whole, self._open = (self._open + piece).split(b"\n")
        if self._open and (not piece or len(self._open) > _MOST_BYTES):
            whole, self._open = [*whole, self._open], b""
        for line in whole:
            self._sink.write(line + b"\n")
            self._see(line.decode(errors="replace"))


class Search:
    """Looks for numbers in a program's lines while it runs; of several ranks in those of one."""

    def __init__(self, patterns: Mapping[str, str], prefix: str) -> None:
        self._printed, self._prefix = Printed(patterns), prefix
        # A program that is quicker is held up: a number may be in any line.
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_LINES)

    @classmethod
    def begun(cls, prefix: str) -> Search | None:
        """Return what METRICS asks for, in lines with a prefix; None without it."""
        return cls(json.loads(os.environ[METRICS]), prefix) if METRICS in os.environ else None

    def before(self, sink: IO[bytes]) -> Lines:
        """Return what a stream is to be written to in place of `sink`, to be searched as well."""
        return Lines(sink, self._lines.put)

    def until(self, end: Callable[[], None]) -> None:
        """Search the lines that come, until `end` returns in a thread of its own."""

        def wait() -> None:
            end()
            self._lines.put(None)

        threading.Thread(target=wait, daemon=True).start()
        mine = (line for line in iter(self._lines.get, None) if line.startswith(self._prefix))
        self._printed.see(line.removeprefix(self._prefix) for line in mine)


class Printed:
    """Looks for numbers in lines; in the main thread alone, where a search can be interrupted."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._place: dict[str, int] = {}
        self._reports = 0
        signal.signal(signal.SIGALRM, _interrupt)

    def see(self, lines: Iterable[str]) -> None:
        """Report the numbers of each line, of each the last one: so a bar has its latest state."""
        for line in lines:
            # What was reported already is in a log, too.
            found = {} if reported(line).keys() >= _EVENT else self._found(line)
            for name in PLACES & found.keys():
                if isinstance(number := found.pop(name), float) and number.is_integer():
                    self._place[name] = int(number)
            if found:
                self._reports += 1
                reporting.log(**{**(self._place or {"step": self._reports}), **found})

    def _found(self, line: str) -> dict[str, Any]:
        drawn = [each[:LONGEST] for each in reversed(_COLORS.sub("", line).split("\r"))]
        texts = {name: self._text(name, drawn) for name in [*self._patterns]}
        return {name: _number(text) for name, text in texts.items() if text}

    def _text(self, name: str, drawn: Sequence[str]) -> str | None:
        """Return what the group has, the last time that a pattern matches; None without a match."""
        pattern = self._patterns[name]
        group = min(pattern.groupindex.values(), default=1)
        try:
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)
            try:
                found = ([match[group] for match in pattern.finditer(text)] for text in drawn)
                return next((each for texts in found for each in reversed(texts) if each), None)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeoutError:
            del self._patterns[name]
            text = f"`metrics.{name}` is given up: its pattern takes over {_SECONDS:g} s for a line"
            Events(own_rank()).emit("warning", warning=text)
            return None


def _interrupt(_number: int, _frame: object) -> None:
    raise TimeoutError


def _number(text: str) -> float | str:
    """Return a number, which a sentence may end with; a text that is none, to be warned of."""
    try:
        return float(text.strip().rstrip(".,;%"))
    except ValueError:
        return text


if __name__ == "__main__":
    with Path(sys.argv[2]).open("rb") as log, redirect_stdout(Path(os.devnull).open("w")):
        lines = (line[:-1].partition(b" ")[2].decode(errors="replace") for line in log)
        Printed(json.loads(sys.argv[1])).see(lines)
    print(json.dumps(reporting.logged()))
