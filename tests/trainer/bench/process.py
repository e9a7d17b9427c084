"""One process of the benchmark: trains for an epoch whenever it is sent a line.

    python3 -m tests.trainer.bench.process CORE WAY NET SAMPLES [ARGUMENT …]

WAY is plain or slipway, NET mnist or cifar. It answers with the BLAS and the version of its torch
and what it calculates with, and then each line with the samples of its epoch and the seconds that
they took, as JSON.
"""

import os
import sys

if __name__ == "__main__":
    # Before torch counts the cores.
    os.sched_setaffinity(0, {int(sys.argv[1])})

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch

from slipway.events import Events
from slipway_trainer.demos import cifar, loop, mnist
from slipway_trainer.training.distributed import join
from tests.trainer.bench import plain


class _Quiet(Events):
    def emit(self, event: str, **values: object) -> None:
        """Say nothing: standard output is for the answers."""


def main(way: str, net: str, samples: int, words: Sequence[str]) -> None:
    """Build what is to be measured, and measure it as often as asked."""
    torch.set_num_threads(1)
    epoch, precision = (
        (plain.epochs(net, samples), "fp32") if way == "plain" else _ours(net, samples, words)
    )
    facts = {"blas": _blas(), "torch": torch.__version__, "precision": precision}
    print(json.dumps(facts), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        seen = epoch()
        seconds = time.perf_counter() - began
        print(json.dumps({"samples": seen, "seconds": seconds}), flush=True)
    os._exit(0)


def _ours(net: str, samples: int, words: Sequence[str]) -> tuple[Callable[[], int], str]:
    """Return what trains for an epoch, in which this rank has so many samples, and with what."""
    module = mnist if net == "mnist" else cifar
    limit = samples * int(os.environ.get("WORLD_SIZE", "1"))
    limits = ["--limit-train", str(limit), "--limit-test", "1", "--threads", "1", "--no-cuda"]
    args = module.PARSER.parse_args([*limits, "--lr", "0.001", *words])
    world = join("gloo", timedelta(minutes=5), use_cuda=False)
    made = loop.Training(module.TASK, args, _Quiet(world.rank), world)
    made.begin()

    def epoch() -> int:
        before = made.tracker.summary()["samples_seen"]
        made.epoch(None)
        made.end_epoch()
        seen: int = made.tracker.summary()["samples_seen"] - before
        return seen

    return epoch, str(made.dtype)


def _blas() -> str:
    """Return the BLAS that torch calculates with, as `contender.Contender` has it."""
    if torch.backends.mkl.is_available():
        return "MKL"
    return "OpenBLAS" if "libopenblas" in Path("/proc/self/maps").read_text() else "reference"


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
