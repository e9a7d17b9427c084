"""The benchmark's figures, and where they come from, as Markdown."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median


@dataclass
class Row:
    """What a contender came to: the samples of all its processes, and samples/s by round."""

    name: str
    processes: int
    blas: str
    precision: str
    samples: int = 0
    speeds: list[float] = field(default_factory=list)
    shortest: float = float("inf")
    """Seconds of its shortest round."""

    def add(self, samples: int, seconds: float) -> None:
        """Take a round's result."""
        self.samples += samples
        self.speeds.append(samples / seconds)
        self.shortest = min(self.shortest, seconds)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one contender is as another, round by round.

    Args:
        over: The one.
        base: The other one.
        times: How many of the other one.
        target: The least that the median is to be, if there is such a target.
    """

    over: Row
    base: Row
    times: int = 1
    target: float | None = None

    @property
    def values(self) -> list[float]:
        """Return the ratio of each round: what slows a round down slows both."""
        pairs = zip(self.over.speeds, self.base.speeds, strict=True)
        return [over / (self.times * base) for over, base in pairs]

    @property
    def is_alike(self) -> bool:
        """Whether both calculate with the same BLAS and the same precision."""
        one, other = self.over, self.base
        return (one.blas, one.precision) == (other.blas, other.precision)

    @property
    def verdict(self) -> str:
        """Return the target and whether the median reaches it; only like is held to a target."""
        if self.target is None:
            return ""
        if not self.is_alike:
            return f"{self.target}: not compared, see BLAS and precision"
        return f"{self.target}: {'met' if median(self.values) >= self.target else 'missed'}"

    def line(self) -> str:
        """Return it as a line of a table."""
        times = f"{self.times} times " if self.times > 1 else ""
        figures = median(self.values), min(self.values), max(self.values)
        alike = "yes" if self.is_alike else "no"
        cells = (f"{self.over.name} over {times}{self.base.name}", *(f"{x:.2f}" for x in figures))
        return f"| {' | '.join((*cells, alike, self.verdict))} |"


def table(net: str, rows: Sequence[Row], ratios: Sequence[Ratio]) -> str:
    """Return a table of a net's contenders, and one of the ratios between them."""
    title = f"{net}, rounds of {min(row.shortest for row in rows):.1f} s and more"
    lines = [
        "",
        f"| {title} | processes | BLAS | precision | samples | samples/s | lowest | highest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        speeds = (median(row.speeds), min(row.speeds), max(row.speeds))
        cells = (row.name, str(row.processes), row.blas, row.precision, f"{row.samples:,}")
        lines.append(f"| {' | '.join((*cells, *(f'{speed:,.0f}' for speed in speeds)))} |")
    lines += [
        "",
        "| ratio | median | lowest | highest | same BLAS and precision | target |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(ratio.line() for ratio in ratios)])


def environment(rounds: int) -> str:
    """Return when and on what it ran."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores, torch "
        f"{version('torch')}, Python {platform.python_version()}; {rounds} rounds; load before: "
        f"{load:.1f}. Each process on a core of its own, one thread."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
