"""Lines of several logs in one: in the order of time, each after whose it is."""

import heapq
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from jobs.api.lines import Cursor, Line

_COLORS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "red")


class LogLine(NamedTuple):
    """A line of one of a run's containers."""

    line: Line
    replica: int
    run: str
    container: str


def joined(parts: Iterable[Iterable[Line]], cursor: Cursor) -> Iterator[Line]:
    """Yield a container's log from what is kept of it and what was fetched behind that.

    What is kept may have grown meanwhile. `cursor` is moved to where the log ends.
    """
    for lines in parts:
        for batch in cursor.fresh([line] for line in lines):
            yield from batch


def merged(logs: Iterable[Iterable[LogLine]]) -> Iterator[LogLine]:
    """Yield the lines of several logs in the order of time; no log is read into memory at once."""
    return heapq.merge(*logs, key=lambda entry: entry.line.stamp)


@dataclass
class Printer:
    """Prints the lines of replicas to `out`, and notes about them to `err`."""

    names: Mapping[int, str]  # what a replica's lines begin with, in color in a terminal
    raw: bool  # whether to print the lines alone, so that a program can read them
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    _containers: dict[int, str] = field(default_factory=dict)
    run: str | None = None
    """Of the latest line; None before the first one."""

    @cached_property
    def labels(self) -> Mapping[int, str]:
        """By replica, what its lines begin with."""
        width = max((len(name) for name in self.names.values()), default=0)
        colors = Console(file=self.out).color_system is not None and "NO_COLOR" not in os.environ
        labels = {}
        for replica, name in self.names.items():
            label = f"[{name}]"
            style = Style(color=_COLORS[replica % len(_COLORS)]) if colors else Style()
            shown = style.render(label, color_system=ColorSystem.STANDARD if colors else None)
            labels[replica] = shown + " " * (width - len(name) + 1)
        return labels

    def print(self, entry: LogLine) -> None:
        """Print a line, and before it whether its program was started again."""
        if self.run is not None and entry.run != self.run:
            self._containers.clear()
            self.note(f"next attempt: {entry.run}")
        self.run = entry.run
        before = self._containers.get(entry.replica)
        if before is not None and before != entry.container:
            self.note(f"{self.names[entry.replica]} was restarted")
        self._containers[entry.replica] = entry.container
        text = entry.line.text
        if not self.raw:
            # torch puts the rank before its own lines, too
            own = f"[{self.names[entry.replica].replace(' ', '')}]:"
            own_removed = text.removeprefix(f"{own} ").removeprefix(own)
            text = f"{self.labels[entry.replica]}{own_removed}"
        self.out.write(f"{text}\n")

    def note(self, text: str) -> None:
        """Print a note to the reader, in its place among the lines."""
        self.out.flush()
        print(f"--- {text}", file=self.err, flush=True)
