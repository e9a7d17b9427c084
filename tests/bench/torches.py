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


def _rate(image: Opened, net: str, precision: str, directory: Path) -> float:
    """Return the samples per second of a short training on two ranks."""
    arguments = (*_NETS[net], "--precision", precision)
    rank = Rank(program=("-m", f"slipway_trainer.{net}"))
    first, _ = image.train(directory, rank, rank, args=arguments, env={"OMP_NUM_THREADS": "1"})
    assert first.code == 0, first.errors
    [epoch] = first.of("epoch")
    return float(epoch["samples_per_second"])


def main(rounds: int) -> None:
    """Print a table in Markdown."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with ExitStack() as held:
        directory = Path(held.enter_context(tempfile.TemporaryDirectory()))
        images = {}
        for each in usable(None):
            storage = directory / each.torch
            storage.mkdir()
            images[each.torch] = held.enter_context(
                opened(trainer(each.torch, cifar=True), storage)
            )
        for number in range(rounds):
            for net in _NETS:
                for precision in ("float32", "bfloat16"):
                    for torch, image in images.items():
                        place = directory / f"{number}-{net}-{precision}-{torch}"
                        place.mkdir()
                        rate = _rate(image, net, precision, place)
                        found[f"{net}, {precision}, samples/s", torch].append(rate)
            for torch, image in images.items():
                seconds = float(image.run("python3", "-c", _IMPORT))
                found["import torch, s", torch].append(seconds)
    print(
        f"| | {' | '.join(images)} | ratio | lowest | highest |\n|---|{'---|' * (len(images) + 3)}"
    )
    new, old = list(images)[:2]
    for what in dict.fromkeys(what for what, _ in found):
        shown = " | ".join(f"{median(found[what, torch]):,.4g}" for torch in images)
        pairs = zip(found[what, new], found[what, old], strict=True)
        ratios = [now / before for now, before in pairs]
        ends = f"{median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f}"
        print(f"| {what} | {shown} | {ends} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
