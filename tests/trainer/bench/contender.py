"""One way to train, in processes of its own that wait for their turn."""

import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROUND_SECONDS = 3.0
"""A round goes on to the end of the epoch in which so much time has passed."""
_LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"


@dataclass
class Contender:
    """What to measure, and what it came to.

    Args:
        name: What the report calls it.
        net: mnist or cifar.
        samples: Of each process in an epoch.
        cores: A process for each.
        words: Arguments of the demo.
        is_plain: Train the usual way instead, see `plain`.
        blas: What torch must have loaded; the reference BLAS is Debian's default.
        packages: A directory with another torch than Debian's.
        is_apart: Each process trains alone, on samples of its own: what the machine has room for.
        precision: What its processes calculate with, fp32 or bf16; both if they differ.
        rounds: The samples of all its processes and the seconds of each round.
    """

    name: str
    net: str
    samples: int
    cores: list[int]
    words: tuple[str, ...] = ()
    is_plain: bool = False
    blas: Literal["OpenBLAS", "reference", "MKL"] = "OpenBLAS"
    packages: Path | None = None
    is_apart: bool = False
    precision: str = ""
    rounds: list[tuple[int, float]] = field(default_factory=list)

    @property
    def speeds(self) -> list[float]:
        """Samples per second, by round."""
        return [samples / seconds for samples, seconds in self.rounds]


@contextmanager
def started(told: Contender) -> Iterator[Callable[[], tuple[int, float]]]:
    """Start its processes; yield what lets them train for a round, and returns it."""
    processes: list[subprocess.Popen[str]] = []

    def answers() -> list[dict[str, Any]]:
        found = []
        for process in processes:
            line = next(iter(process.stdout or ()), None)
            if line is None:
                raise RuntimeError(f"{told.name} ended with {process.wait()}, see above")
            found.append(json.loads(line))
        return found

    def train() -> tuple[int, float]:
        samples, seconds = 0, 0.0
        while seconds < ROUND_SECONDS:
            for process in processes:
                print(file=process.stdin, flush=True)
            ended = answers()
            samples += sum(each["samples"] for each in ended)
            seconds += max(each["seconds"] for each in ended)
        return samples, seconds

    try:
        for words, variables in _processes(told):
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.trainer.bench.process", *words],
                    env=os.environ | variables,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        facts = answers()
        loaded = ", ".join(sorted({each["blas"] for each in facts}))
        if loaded != told.blas:
            raise RuntimeError(f"{told.name} needs {told.blas}, but torch loaded {loaded}")
        told.precision = ", ".join(sorted({each["precision"] for each in facts}))
        yield train
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _processes(told: Contender) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield each process's arguments and variables."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    world["GLOO_SOCKET_IFNAME"] = "lo"  # this machine's name may have no address
    if told.packages is not None:
        world["PYTHONPATH"] = f"{told.packages}:{os.environ['PYTHONPATH']}"
    if told.blas == "reference":
        world["LD_LIBRARY_PATH"] = f"{_LIBRARIES}/blas:{_LIBRARIES}/lapack"
    for rank, core in enumerate(told.cores):
        if not told.is_apart:
            world |= {"WORLD_SIZE": str(len(told.cores)), "RANK": str(rank)}
        way = "plain" if told.is_plain else "slipway"
        yield [str(core), way, told.net, str(told.samples), *told.words], dict(world)
