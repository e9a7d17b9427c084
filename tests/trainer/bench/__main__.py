"""Measure how fast the demos train here, beside the usual way to write them.

    python3 -m tests.trainer.bench [--rounds 7] [--net mnist] [--pypi DIRECTORY]

All contenders take turns, a round each, so what slows the machine down for a while slows all of
them. Of a round's two epochs the second counts. The figures are medians over the rounds, the ratios
medians of each round's ratio, with the lowest and the highest.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

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
_LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"


@dataclass
class Contender:
    """One way to train, by the same program on each of its cores.

    Args:
        program: What python3 is given.
        cores: A process for each.
        variables: Of its processes.
        is_apart: Each process trains alone, on samples of its own: what the machine has room for.
        precision: What its processes calculated with, fp32 or bf16; both if they differ.
        speeds: The samples per second of all its processes, by round.
    """

    program: Sequence[str]
    cores: Sequence[int]
    variables: dict[str, str] = field(default_factory=dict)
    is_apart: bool = False
    precision: str = ""
    speeds: list[float] = field(default_factory=list)

    def train(self) -> None:
        """Train for a round."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        every, processes = os.sched_getaffinity(0), []
        for rank, core in enumerate(self.cores):
            own = {"OMP_NUM_THREADS": "1", "SLIPWAY_OUTPUT_DIR": f"/tmp/bench-{rank}"}
            if not self.is_apart:
                own |= {"WORLD_SIZE": str(len(self.cores)), "RANK": str(rank)}
                # This machine's name may have no address.
                own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
            os.sched_setaffinity(0, {core})  # the process has it from its start
            command, env = [sys.executable, *self.program], os.environ | self.variables | own
            processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        os.sched_setaffinity(0, every)
        lines = [line for each in processes for line in each.communicate()[0].splitlines()]
        events = [json.loads(line) for line in lines if line.startswith('{"')]
        self.precision = ", ".join(
            sorted({each["precision"] for each in events if "precision" in each})
        )
        counted = [each for each in events if (each["event"], each.get("epoch")) == ("epoch", 2)]
        seconds = max(each["seconds"] for each in counted)
        self.speeds.append(sum(each["samples"] for each in counted) / seconds)


def contenders(net: str, cores: list[int], pypi: Path | None) -> dict[str, Contender]:
    """Return those to compare; `pypi` has the packages of PyPI's torch."""
    plain_samples, samples = SAMPLES[net]
    plain = ("-m", "tests.trainer.bench.plain", net, str(plain_samples))
    own = (
        *("-m", f"slipway_trainer.{net}", "--epochs", "2", "--lr", "0.001", "--no-cuda"),
        *("--limit-test", "100", "--threads", "1", "--limit-train"),
    )
    ours, float32, one = (*own, str(samples)), ("--precision", "float32"), cores[:1]
    reference = {"LD_LIBRARY_PATH": f"{_LIBRARIES}/blas:{_LIBRARIES}/lapack"}
    large = ("--batch-size", "256")
    made = {
        PLAIN + DEFAULT: Contender(plain, one, reference),
        PLAIN: Contender(plain, one),
        FLOAT32: Contender((*ours, *float32), one),
        OURS: Contender(ours, one),
        OURS + LARGE: Contender((*ours, *large), one),
    }
    if pypi is not None:
        packages = {"PYTHONPATH": f"{pypi}:{os.environ['PYTHONPATH']}"}
        made[PLAIN + PYPI] = Contender(plain, one, packages)
        made[FLOAT32 + PYPI] = Contender((*ours, *float32), one, packages)
    if len(cores) > 1:
        for suffix, words in (("", ()), (LARGE, large)):
            shared = (*own, str(2 * samples), *words)
            made[RANKS + suffix] = Contender(shared, cores[:2])
            made[APART + suffix] = Contender((*ours, *words), cores[:2], is_apart=True)
    return made


def ratio(name: str, base: str, of: dict[str, Contender], target: float | None) -> str:
    """Return a line with how many times as fast one is as another, round by round.

    Only those of the same precision are held to a target, the least for the median.
    """
    over, under = of[name], of[base]
    values = [one / other for one, other in zip(over.speeds, under.speeds, strict=True)]
    verdict = ""
    if target is not None:
        met = "met" if median(values) >= target else "missed"
        is_alike = over.precision == under.precision
        verdict = f"{target}: {met if is_alike else 'not compared, see precision'}"
    figures = (f"{each:.2f}" for each in (median(values), min(values), max(values)))
    return _line(f"{name} over {base}", *figures, verdict)


def report(net: str, of: dict[str, Contender]) -> str:
    """Return a table of a net's contenders, and one of the ratios between them."""
    rows = ["", _line(net, "processes", "precision", "samples/s", "lowest", "highest")]
    rows.append("|---" * 6 + "|")
    for name, each in of.items():
        speeds = (median(each.speeds), min(each.speeds), max(each.speeds))
        figures = (f"{speed:,.0f}" for speed in speeds)
        rows.append(_line(name, str(len(each.cores)), each.precision, *figures))
    rows += ["", _line("ratio", "median", "lowest", "highest", "target"), "|---" * 5 + "|"]
    compared = (
        (FLOAT32, PLAIN, TARGETS[net]),
        (FLOAT32 + PYPI, PLAIN + PYPI, TARGETS[net]),
        (FLOAT32, PLAIN + PYPI, None),
        *((OURS, base, None) for base in (PLAIN, PLAIN + DEFAULT, PLAIN + PYPI)),
        *((RANKS + suffix, APART + suffix, SCALING) for suffix in ("", LARGE)),
    )
    rows += [ratio(one, base, of, least) for one, base, least in compared if {one, base} <= {*of}]
    return "\n".join(rows)


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
    print(environment(args.rounds), flush=True)
    for net in SAMPLES if args.net is None else [args.net]:
        compared = contenders(net, sorted(os.sched_getaffinity(0)), args.pypi)
        for _ in range(args.rounds):
            for each in compared.values():
                each.train()
        print(report(net, compared), flush=True)


if __name__ == "__main__":
    main()
