"""One way to train, in processes of its own that wait for their turn."""

import json
import os
import platform
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

ROUND_SECONDS = 3.0
"""A round goes on to the end of the epoch in which so much time has passed."""
_LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"

Blas = Literal["OpenBLAS", "reference", "MKL"]


@dataclass(frozen=True)
class Contender:
    """What to measure.

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
    """

    name: str
    net: str
    samples: int
    cores: list[int]
    words: tuple[str, ...] = ()
    is_plain: bool = False
    blas: Blas = "OpenBLAS"
    packages: Path | None = None
    is_apart: bool = False


class Running:
    """A contender, started with `with`.

    Attributes:
        precision: What its processes calculate with, fp32 or bf16; both if they differ.
    """

    precision = ""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        told = self.contender
        way = "plain" if told.is_plain else "slipway"
        world: dict[str, Any] = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        world["GLOO_SOCKET_IFNAME"] = "lo"  # this machine's name may have no address
        if told.packages is not None:
            world["PYTHONPATH"] = f"{told.packages}:{os.environ['PYTHONPATH']}"
        if told.blas == "reference":
            world["LD_LIBRARY_PATH"] = f"{_LIBRARIES}/blas:{_LIBRARIES}/lapack"
        for rank, core in enumerate(told.cores):
            if not told.is_apart:
                world |= {"WORLD_SIZE": len(told.cores), "RANK": rank}
            words = [str(core), way, told.net, str(told.samples), *told.words]
            variables = {name: str(value) for name, value in world.items()}
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.trainer.bench.process", *words],
                env=os.environ | variables | {"OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
        answers = [self._answer(process) for process in self._processes]
        loaded = ", ".join(sorted({each["blas"] for each in answers}))
        if loaded != told.blas:
            raise RuntimeError(f"{told.name} needs {told.blas}, but torch loaded {loaded}")
        self.precision = ", ".join(sorted({each["precision"] for each in answers}))
        return self

    def round(self) -> tuple[int, float]:
        """Train for `ROUND_SECONDS` or more; return all processes' samples, and the seconds."""
        samples, seconds = 0, 0.0
        while seconds < ROUND_SECONDS:
            for process in self._processes:
                print(file=process.stdin, flush=True)
            answers = [self._answer(process) for process in self._processes]
            samples += sum(each["samples"] for each in answers)
            seconds += max(each["seconds"] for each in answers)
        return samples, seconds

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        line = next(iter(process.stdout or ()), None)
        if line is None:
            raise RuntimeError(f"{self.contender.name} ended with {process.wait()}, see above")
        answer: dict[str, Any] = json.loads(line)
        return answer
