"""Find numbers in a program's output, using the patterns in a job's `metrics`.

    python3 -m slipway_trainer.agent.printed '{"accuracy": "accuracy=([0-9.]+)"}' 0.log

They are reported as if by `slipway.log`; an `epoch` or `step` applies to numbers on the same and
later lines. When run as a command, this module reads a kubelet log and prints the metrics as JSON.
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
"""The environment variable that contains the patterns, as JSON, keyed by the metric's name."""
_SECONDS = 1.0
"""Time limit for searching one line; a pattern that takes longer, such as `(a+)+b`, is dropped."""
_COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
MARK = "\x1b[m"
"""Invisible; it distinguishes a rank's prefix such as `[0] ` from the program's own output."""
_PREFIX = re.compile(rf"\[(\d+)\] {re.escape(MARK)}")


class Lines:
    """Writes complete lines to a file, and then passes each one to `see`."""

    def __init__(self, sink: IO[bytes], see: Callable[[str], None]) -> None:
        self._sink, self._see, self._open = sink, see, b""
        self.flush = sink.flush

    def write(self, piece: bytes) -> None:
        """Process the next piece of output; an empty piece marks the end."""
        *lines, self._open = (self._open + piece).split(b"\n")
        if self._open and (not piece or len(self._open) > 256 * 1024):  # treat it as a line
            lines, self._open = [*lines, self._open], b""
        for line in lines:
            self._sink.write(line + b"\n")
            self._see(line.decode(errors="replace"))


class Search:
    """Searches lines for numbers, in the main thread only, where a timeout can interrupt it."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._place: dict[str, int] = {}
        self._reports = 0
        # A full queue slows the program down; no line is dropped, as any may contain a number.
        self.lines: queue.Queue[str | None] = queue.Queue(1000)

    def until(self, end: Callable[[], None]) -> None:
        """Search `lines` until `end` returns."""

        def wait() -> None:
            end()
            self.lines.put(None)

        threading.Thread(target=wait, daemon=True).start()
        self.see(iter(self.lines.get, None))

    def see(self, lines: Iterable[str]) -> None:
        """Report each pattern's last match in each line: a progress bar's latest state is last."""
        for line in (part for each in lines for part in _of_rank_0(each)):
            # The output also contains events, which have already been reported.
            is_event = reported(line).keys() >= {"event", "rank", "time"}
            values = {} if is_event else self._values(line)
            for name in {"epoch", "step"} & values.keys():
                if isinstance(number := values.pop(name), float) and number.is_integer():
                    self._place[name] = int(number)
            if values:
                self._reports += 1
                reporting.log(**{**(self._place or {"step": self._reports}), **values})

    def _values(self, line: str) -> dict[str, Any]:
        drawn = [each[:4096] for each in reversed(_COLORS.sub("", line).split("\r"))]
        values, name = dict[str, Any](), ""
        try:
            with time_limit(_SECONDS, "searching a line"):
                for name, pattern in self._patterns.items():
                    if text := _last(pattern, drawn):
                        values[name] = _number(text)
        except TimeoutError as error:
            del self._patterns[name]
            text = f"`metrics.{name}` is dropped: {error}; simplify its pattern"
            Events(own_rank()).warning(text)
        return values


def _of_rank_0(line: str) -> list[str]:
    """Return the parts of a line that rank 0 printed: ranks' lines may run into each other."""
    text, *others = _PREFIX.split(line)
    parts = zip(others[::2], others[1::2], strict=True)
    return [part for rank, part in parts if rank == "0"] if others else [text]


def _last(pattern: re.Pattern[str], drawn: Sequence[str]) -> str | None:
    """Return the text of the first named group, or else the first group, in the last match."""
    group = min(pattern.groupindex.values(), default=1)
    matches = ([match[group] for match in pattern.finditer(text)] for text in drawn)
    return next((each for texts in matches for each in reversed(texts) if each), None)


def _number(text: str) -> float | str:
    """Parse a number, even if punctuation follows; return other text unchanged, for a warning."""
    try:
        return float(text.strip().rstrip(".,;%"))
    except ValueError:
        return text


if __name__ == "__main__":
    with Path(sys.argv[2]).open("rb") as log, redirect_stdout(Path(os.devnull).open("w")):
        lines = (line[:-1].partition(b" ")[2].decode(errors="replace") for line in log)
        Search(json.loads(sys.argv[1])).see(lines)
    print(json.dumps(reporting.logged()))
