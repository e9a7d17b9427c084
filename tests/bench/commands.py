"""`make bench-commands`: what the commands cost, beside an earlier commit's, in one run.

Both checkouts are copies with state of their own (`scripts/scratch.py`), each with the Python
environment of its own lock file. The earlier one's cache begins as this one's, and gets what it
asks for in other versions. They take turns, command by command, so that a busy machine slows both
down. What is counted: the CPU of all of a command's processes, and wall seconds; see `measure`.
"""

import argparse
import ctypes
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

from core.paths import CHECKOUT, cache_dir
from scripts.scratch import Scratch

BASE = "2d6921f37411"
"""Before anything was done about it."""
_LIMIT = 45 * 60.0
_ENDING_SECONDS = 1.0
"""How long what a command has started may take to end after it."""
_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h: orphans among one's descendants become one's children, to be waited for."""
_POD = "containerd-shim"
"""The parent of a pod's processes, cut to the 15 characters of proc(5)."""
T = TypeVar("T")


@dataclass(frozen=True)
class Goal:
    """What is measured.

    Args:
        name: In the table.
        command: As typed.
        ratio: What it may cost at most, as a part of what it cost.
        seconds: What it may take at most on a quiet machine; None for no such limit.
    """

    name: str
    command: str
    ratio: float
    seconds: float | None = None

    def __str__(self) -> str:
        return f"≤ {self.ratio}" + (f", ≤ {self.seconds:g} s" if self.seconds else "")


FIRST_UP = Goal("first make up, warm", "make up", 0.65, 45)
GOALS = (
    Goal("make preview, no change", "make preview", 0.5),
    Goal("second make up", "make up", 0.5, 10),
    Goal("make results", "make results", 0.4, 1.5),
    Goal("make logs, first line", "make logs JOB=mnist-gloo FOLLOW=0 | head -n 1", 0.4, 1.5),
)


class Cost(NamedTuple):
    """Seconds."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:.1f}, {self.wall:.1f}"


Copies = dict[str, tuple[Scratch, Path]]
"""The checkouts that are measured, `before` and `now`, and the cache that each uses."""
Costs = dict[tuple[str, str], list[Cost]]
"""By goal, and by which checkout's they are: `before` or `now`."""


def main() -> int:
    """Print the table. Exits with 0 whatever its result, which a busy machine may distort."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commands", description=__doc__)
    parser.add_argument("base", nargs="?", default=BASE, help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-ups", type=int, default=1, help="they take minutes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=cache_dir().parent, prefix="slipway-bench-") as cache:
        shutil.copytree(cache_dir(), Path(cache, "slipway"), symlinks=True, copy_function=os.link)
        copies = {
            "before": (_at(arguments.base), Path(cache)),
            "now": (Scratch.copy_of(CHECKOUT), cache_dir().parent),
        }
        try:
            costs = _measured(copies, arguments.rounds, arguments.first_ups)
        finally:
            for scratch, used in copies.values():
                scratch.run(_with_cache(used, "make down"), _LIMIT, show=True)
                scratch.remove()
    _print(costs, arguments.base)
    return 0


def _at(commit: str) -> Scratch:
    """Return a copy of the checkout as it was at a commit."""
    with tempfile.TemporaryDirectory(prefix="slw-") as directory:
        for command in (
            ["clone", "--quiet", "--no-checkout", str(CHECKOUT), directory],
            ["-C", directory, "checkout", "--quiet", "--detach", commit],
        ):
            subprocess.run(["git", *command], check=True)
        return Scratch.copy_of(Path(directory))


def _with_cache(cache: Path, command: str) -> str:
    return f"export XDG_CACHE_HOME={shlex.quote(str(cache))}; {command}"


def _measured(copies: Copies, rounds: int, first_ups: int) -> Costs:
    costs: Costs = defaultdict(list)
    for command in ("make setup", "make up"):  # Not counted: they make what the cache lacks.
        for copy in copies.values():
            _cost(*copy, command)
    for _ in range(first_ups):
        for which, copy in copies.items():
            _cost(*copy, "make down")
            costs[FIRST_UP.name, which].append(_cost(*copy, FIRST_UP.command))
    for _ in range(rounds):
        for goal in GOALS:
            for which, copy in copies.items():
                costs[goal.name, which].append(_cost(*copy, goal.command))
    return costs


def _cost(scratch: Scratch, cache: Path, command: str) -> Cost:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed.
    """
    print(f"{scratch.checkout}: {command}", file=sys.stderr, flush=True)
    finished, cost = measure(scratch.run, _with_cache(cache, command), _LIMIT)
    if finished.code != 0:
        raise RuntimeError(str(finished))
    return cost


def measure(function: Callable[..., T], *args: Any) -> tuple[T, Cost]:
    """Return what a function returns, and what the processes cost that it starts.

    The CPU of processes which outlive their parents counts, too. What runs on afterwards, such as
    a cluster, is left out, and so are pods: training costs the same whatever starts it.
    """
    # In a process of its own, whose children are those of the function alone.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured_here, function, *args).result()


def _measured_here(function: Callable[..., T], *args: Any) -> tuple[T, Cost]:
    # Not on macOS, where what outlives its parent is not counted.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    result = function(*args)
    wall = time.monotonic() - began
    time.sleep(_ENDING_SECONDS)
    pods = 0.0
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            is_pod = Path(f"/proc/{ended.si_pid}/comm").read_text().strip() == _POD
            used = os.wait4(ended.si_pid, 0)[2]
            pods += is_pod * (used.ru_utime + used.ru_stime)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, Cost(used.ru_utime + used.ru_stime - pods, wall)


def _print(costs: Costs, base: str) -> None:
    print(f"CPU and wall seconds, medians; before is {base}")
    table = Table("command", "before", "now", "ratio", "target", box=box.SIMPLE_HEAD)
    for goal in (FIRST_UP, *GOALS):
        before, now = (_median(costs[goal.name, which]) for which in ("before", "now"))
        ratio = f"{now.cpu / before.cpu:.2f}, {now.wall / before.wall:.2f}"
        table.add_row(goal.name, str(before), str(now), ratio, str(goal))
    Console().print(table)


def _median(costs: list[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
