"""Measure how fast the demos train here, beside the usual way to write them.

    python3 -m tests.trainer.bench [--rounds 7]

All contenders are started first and then take turns, one epoch each per round, so what slows the
machine down for a while slows all of them. The figures are medians over the rounds, the ratios
medians of each round's ratio.
"""

import argparse
import os
from contextlib import ExitStack
from statistics import median

from tests.trainer.bench.contender import Contender, Running
from tests.trainer.bench.report import Row, environment, table

SAMPLES = {"mnist": 3200, "cifar": 768}
"""Of each process in a round."""

PLAIN, OPENBLAS, OURS = "plain, Debian's default BLAS", "plain, OpenBLAS", "slipway"
APART = "slipway, 2 processes apart"


def contenders(net: str, cores: list[int]) -> list[Contender]:
    """Return those to compare."""
    one, two, samples = cores[:1], cores[:2], SAMPLES[net]
    large = ("--batch-size", "256")
    made = [
        Contender(PLAIN, net, samples, one, is_plain=True, has_openblas=False),
        Contender(OPENBLAS, net, samples, one, is_plain=True),
        Contender(OURS, net, samples, one),
        Contender("slipway, float32", net, samples, one, ("--precision", "float32")),
        Contender("slipway, batches of 256", net, samples, one, large),
    ]
    if len(two) == 2:
        made += [
            Contender("slipway, 2 ranks", net, samples, two),
            Contender("slipway, 2 ranks, batches of 256", net, samples, two, large),
            Contender(APART, net, samples, two, is_apart=True),
            Contender(f"{APART}, batches of 256", net, samples, two, large, is_apart=True),
        ]
    return made


def measure(net: str, rounds: int, cores: list[int]) -> list[Row]:
    """Let all contenders take turns, after a round that isn't counted."""
    with ExitStack() as stack:
        running = [stack.enter_context(Running(each)) for each in contenders(net, cores)]
        rows = [Row(each.contender.name, net, len(each.contender.cores)) for each in running]
        for turn in range(rounds + 1):
            for row, each in zip(rows, running, strict=True):
                samples, seconds = each.epoch()
                if turn > 0:
                    row.add(samples, seconds)
    return rows


def ratios(rows: list[Row]) -> dict[str, float]:
    """Return what the benchmark is about, one line each."""
    speeds = {row.name: row.speeds for row in rows}

    def over(name: str, base: str) -> float:
        return median(a / b for a, b in zip(speeds[name], speeds[base], strict=True))

    found = {f"{OURS} over {base}": over(OURS, base) for base in (PLAIN, OPENBLAS)}
    for suffix in ("", ", batches of 256"):
        two, one, apart = f"slipway, 2 ranks{suffix}", f"slipway{suffix}", f"{APART}{suffix}"
        if two in speeds:
            found[f"scaling efficiency, 1 to 2 ranks{suffix}"] = over(two, one) / 2
            found[f"the same of 2 processes that do not communicate{suffix}"] = over(apart, one) / 2
            found[f"2 ranks over these{suffix}"] = over(two, apart)
    return found


def main() -> None:
    """Measure both demos and print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.trainer.bench")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    cores = sorted(os.sched_getaffinity(0))
    print(environment(rounds))
    for net in SAMPLES:
        rows = measure(net, rounds, cores)
        print(table(rows, ratios(rows)), flush=True)


if __name__ == "__main__":
    main()
