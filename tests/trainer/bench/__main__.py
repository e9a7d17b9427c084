"""Measure how fast the demos train here, beside the usual way to write them.

    python3 -m tests.trainer.bench [--rounds 7] [--net mnist] [--pypi DIRECTORY]

All contenders are started first and then take turns, a round each, so what slows the machine down
for a while slows all of them. The figures are medians over the rounds, the ratios medians of each
round's ratio, with the lowest and the highest. What has a target is compared with its like: the
same BLAS, the same precision.
"""

import argparse
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from tests.trainer.bench.contender import Contender, started

SAMPLES = {"mnist": (6400, 19200), "cifar": (1536, 3072)}
"""Of each process in an epoch, the plain way and ours: 3 to 6 seconds where it was written."""
TARGETS = {"mnist": 3.0, "cifar": 1.5}
"""How many times as fast as the plain way training is to be, at the same precision."""
SCALING = 0.9
"""What two ranks are to reach of two processes that do not communicate."""

PLAIN, FLOAT32, OURS, RANKS, APART = (
    "plain",
    "slipway, float32",
    "slipway",
    "slipway, 2 ranks",
    "slipway, 2 processes apart",
)
PYPI = ", PyPI's torch"
DEFAULT = ", Debian's default BLAS"
LARGE = ", batches of 256"
_HEADS = ("processes", "BLAS", "precision", "samples", "samples/s", "lowest", "highest")
_RATIO_HEADS = ("ratio", "median", "lowest", "highest", "same BLAS and precision", "target")


def contenders(net: str, cores: list[int], pypi: Path | None) -> list[Contender]:
    """Return those to compare; `pypi` has the packages of PyPI's torch."""
    one, two = cores[:1], cores[:2]
    plain, ours = SAMPLES[net]
    float32, large = ("--precision", "float32"), ("--batch-size", "256")
    made = [
        Contender(PLAIN + DEFAULT, net, plain, one, is_plain=True, blas="reference"),
        Contender(PLAIN, net, plain, one, is_plain=True),
        Contender(FLOAT32, net, ours, one, float32),
        Contender(OURS, net, ours, one),
        Contender(OURS + LARGE, net, ours, one, large),
    ]
    if pypi is not None:
        made += [
            Contender(PLAIN + PYPI, net, plain, one, is_plain=True, blas="MKL", packages=pypi),
            Contender(FLOAT32 + PYPI, net, ours, one, float32, blas="MKL", packages=pypi),
        ]
    if len(two) == 2:
        for suffix, words in (("", ()), (LARGE, large)):
            made += [
                Contender(RANKS + suffix, net, ours, two, words),
                Contender(APART + suffix, net, ours, two, words, is_apart=True),
            ]
    return made


def measure(turns: list[Contender], rounds: int) -> dict[str, Contender]:
    """Let all contenders take turns, after a round that isn't counted."""
    with ExitStack() as stack:
        running = [(each, stack.enter_context(started(each))) for each in turns]
        for turn in range(rounds + 1):
            for each, train in running:
                samples, seconds = train()
                if turn > 0:
                    each.rounds.append((samples, seconds))
    return {each.name: each for each in turns}


def ratio(over: Contender, base: Contender, times: int = 1, target: float | None = None) -> str:
    """Return a line with how many times as fast one is as `times` others, round by round.

    What slows a round down slows both. Only like is held to a target, the least for the median.
    """
    pairs = zip(over.speeds, base.speeds, strict=True)
    values = [one / (times * other) for one, other in pairs]
    is_alike = (over.blas, over.precision) == (base.blas, base.precision)
    verdict = ""
    if target is not None:
        met = "met" if median(values) >= target else "missed"
        verdict = f"{target}: {met if is_alike else 'not compared, see BLAS and precision'}"
    name = f"{over.name} over {f'{times} times ' if times > 1 else ''}{base.name}"
    figures = (f"{each:.2f}" for each in (median(values), min(values), max(values)))
    return _line(name, *figures, "yes" if is_alike else "no", verdict)


def ratios(net: str, of: dict[str, Contender]) -> list[str]:
    """Return what the benchmark is about, the headline first."""
    found = [ratio(of[FLOAT32], of[PLAIN], target=TARGETS[net])]
    if PLAIN + PYPI in of:
        found += [
            ratio(of[FLOAT32 + PYPI], of[PLAIN + PYPI], target=TARGETS[net]),
            ratio(of[FLOAT32], of[PLAIN + PYPI]),
            ratio(of[OURS], of[PLAIN + PYPI]),
        ]
    found += [ratio(of[OURS], of[base]) for base in (PLAIN, PLAIN + DEFAULT)]
    for suffix in ("", LARGE):
        if RANKS + suffix in of:
            found += [
                ratio(of[RANKS + suffix], of[APART + suffix], target=SCALING),
                ratio(of[APART + suffix], of[OURS + suffix], times=2),
            ]
    return found


def table(net: str, rows: Sequence[Contender], lines: Sequence[str]) -> str:
    """Return a table of a net's contenders, and one of the ratios between them."""
    shortest = min(seconds for row in rows for _, seconds in row.rounds)
    found = ["", _line(f"{net}, rounds of {shortest:.1f} s and more", *_HEADS), "|---" * 8 + "|"]
    for row in rows:
        total = sum(samples for samples, _ in row.rounds)
        speeds = (median(row.speeds), min(row.speeds), max(row.speeds))
        figures = (f"{total:,}", *(f"{speed:,.0f}" for speed in speeds))
        found.append(_line(row.name, str(len(row.cores)), row.blas, row.precision, *figures))
    return "\n".join([*found, "", _line(*_RATIO_HEADS), "|---" * 6 + "|", *lines])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def environment(rounds: int) -> str:
    """Return when and on what it ran."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in processors if line.startswith("model name"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {next(names, platform.machine())}, {os.cpu_count()} cores, "
        f"torch {version('torch')}, Python {platform.python_version()}; {rounds} rounds; load "
        f"before: {os.getloadavg()[0]:.1f}. Each process on a core of its own, one thread."
    )


def main() -> None:
    """Measure the demos and print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.trainer.bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--net", choices=SAMPLES, help="one demo alone")
    parser.add_argument("--pypi", type=Path, help="the packages of PyPI's torch")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    print(environment(args.rounds), flush=True)
    for net in SAMPLES if args.net is None else [args.net]:
        rows = measure(contenders(net, cores, args.pypi), args.rounds)
        print(table(net, list(rows.values()), ratios(net, rows)), flush=True)


if __name__ == "__main__":
    main()
