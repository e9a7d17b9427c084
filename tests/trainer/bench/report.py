"""The benchmark's figures, and where they come from, as Markdown."""

import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median


@dataclass
class Row:
    """What a contender came to: the samples of all its processes, and samples/s by round."""

    name: str
    net: str
    processes: int
    samples: int = 0
    speeds: list[float] = field(default_factory=list)

    def add(self, samples: int, seconds: float) -> None:
        """Take a round's result."""
        self.samples += samples
        self.speeds.append(samples / seconds)


def table(rows: list[Row], ratios: dict[str, float]) -> str:
    """Return a table of a net's contenders, and the ratios between them."""
    lines = [
        "",
        f"| {rows[0].net} | processes | samples | samples/s: median | lowest | highest |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.processes} | {row.samples:,} | {median(row.speeds):,.0f} "
        f"| {min(row.speeds):,.0f} | {max(row.speeds):,.0f} |"
        for row in rows
    ]
    return "\n".join([*lines, "", *(f"- {name}: {value:.2f}" for name, value in ratios.items())])


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
