"""Measure how fast the demos train here, beside the usual way to write them.

    python3 -m tests.trainer.bench [--rounds 7] [--net mnist] [--pypi DIRECTORY]

All contenders are started first and then take turns, a round each, so what slows the machine down
for a while slows all of them. The figures are medians over the rounds, the ratios medians of each
round's ratio, with the lowest and the highest. What has a target is compared with its like: the
same BLAS, the same precision.
"""

import argparse
import os
from contextlib import ExitStack
from pathlib import Path

from tests.trainer.bench.contender import Contender, Running
from tests.trainer.bench.report import Ratio, Row, environment, table

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


def measure(turns: list[Contender], rounds: int) -> dict[str, Row]:
    """Let all contenders take turns, after a round that isn't counted."""
    with ExitStack() as stack:
        running = [stack.enter_context(Running(each)) for each in turns]
        rows = [
            Row(told.name, len(told.cores), told.blas, each.precision)
            for told, each in zip(turns, running, strict=True)
        ]
        for turn in range(rounds + 1):
            for row, each in zip(rows, running, strict=True):
                samples, seconds = each.round()
                if turn > 0:
                    row.add(samples, seconds)
    return {row.name: row for row in rows}


def ratios(net: str, rows: dict[str, Row]) -> list[Ratio]:
    """Return what the benchmark is about, the headline first."""
    found = [Ratio(rows[FLOAT32], rows[PLAIN], target=TARGETS[net])]
    if PLAIN + PYPI in rows:
        found += [
            Ratio(rows[FLOAT32 + PYPI], rows[PLAIN + PYPI], target=TARGETS[net]),
            Ratio(rows[FLOAT32], rows[PLAIN + PYPI]),
            Ratio(rows[OURS], rows[PLAIN + PYPI]),
        ]
    found += [Ratio(rows[OURS], rows[base]) for base in (PLAIN, PLAIN + DEFAULT)]
    for suffix in ("", LARGE):
        if RANKS + suffix in rows:
            found += [
                Ratio(rows[RANKS + suffix], rows[APART + suffix], target=SCALING),
                Ratio(rows[APART + suffix], rows[OURS + suffix], times=2),
            ]
    return found


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
