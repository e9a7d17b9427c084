"""Measure the demos with each version of torch that a job on CPUs can have, side by side.

    python -m tests.bench.torches [ROUNDS]

Each round trains MNIST and CIFAR-10 on two ranks with one thread each, in the image of every
version in turn: with 32-bit numbers, and with bfloat16. A ratio is the median of the rounds'.
"""

import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from images.build.releases import usable
from images.build.trainer import trainer
from tests.trainer.conftest import Opened, Rank, opened

_NETS = {
    "mnist": ("--epochs", "1", "--limit-test", "2000"),
    "cifar": ("--epochs", "1", "--limit-train", "6000", "--limit-test", "1000"),
}
_IMPORT = (
    "import time; began = time.perf_counter(); import torch; print(time.perf_counter() - began)"
)


def _rate(image: Opened, net: str, precision: str) -> float:
    """Return the samples per second of a short training on two ranks."""
    arguments = (*_NETS[net], "--precision", precision)
    rank = Rank(program=("-m", f"slipway_trainer.{net}"))
    with tempfile.TemporaryDirectory() as directory:
        first, _ = image.train(
            Path(directory), rank, rank, args=arguments, env={"OMP_NUM_THREADS": "1"}
        )
    assert first.code == 0, first.errors
    [epoch] = first.of("epoch")
    return float(epoch["samples_per_second"])


def main(rounds: int) -> None:
    """Print a table in Markdown."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as held:
        images = {}
        for each in usable(None):
            storage = Path(held.enter_context(tempfile.TemporaryDirectory()))
            images[each.torch] = held.enter_context(
                opened(trainer(each.torch, cifar=True), storage)
            )
        for _ in range(rounds):
            for net in _NETS:
                for precision in ("float32", "bfloat16"):
                    for torch, image in images.items():
                        rate = _rate(image, net, precision)
                        found[f"{net}, {precision}, samples/s"][torch].append(rate)
            for torch, image in images.items():
                seconds = float(image.run("python3", "-c", _IMPORT))
                found["import torch, s"][torch].append(seconds)
    print(f"| | {' | '.join(images)} | ratio | lowest | highest |")
    print(f"|---|{'---|' * (len(images) + 3)}")
    for what, by_torch in found.items():
        new, old, *_ = by_torch.values()
        ratios = [now / before for now, before in zip(new, old, strict=True)]
        shown = [f"{median(each):,.4g}" for each in by_torch.values()]
        shown += [f"{each:.2f}" for each in (median(ratios), min(ratios), max(ratios))]
        print(f"| {what} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
