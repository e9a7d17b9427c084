"""Train a small convolutional network on MNIST, on any number of ranks.

Alone:
    python3 -m slipway_trainer.mnist --no-cuda
Four ranks on one machine:
    torchrun --nproc-per-node 4 -m slipway_trainer.mnist --backend gloo --no-cuda
As a PyTorchJob the operator sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and the
containers run the same line as alone.
"""

import argparse
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from slipway_trainer import data, report
from slipway_trainer.data import Samples
from slipway_trainer.distributed import World, join
from slipway_trainer.events import Events
from slipway_trainer.sharding import batches

EVALUATION_BATCH = 500


def arguments() -> argparse.Namespace:
    """Return the command line's arguments; raise `argparse.ArgumentError` for a wrong one."""
    parser = argparse.ArgumentParser(prog="slipway_trainer.mnist", exit_on_error=False)
    add = parser.add_argument
    add_count = partial(add, type=_positive)
    add("--backend", default="gloo", choices=["gloo", "nccl"])
    add_count("--epochs", default=1)
    add_count("--batch-size", default=64, help="samples per rank and step")
    add("--lr", type=float, default=0.01, help="learning rate for one rank; see main")
    add("--momentum", type=float, default=0.9)
    add("--seed", type=int, default=1)
    add_count("--log-interval", default=50, help="steps between two step events")
    add("--no-cuda", action="store_true", help="train on the CPU although there is a GPU")
    add_count("--threads", default=1, help="CPU threads of this rank")
    add("--timeout", type=float, default=5, help="minutes to wait for the other ranks")
    add("--data", type=Path, default=Path("/data/mnist"))
    add_count("--limit-train", help="train on the first so many samples only")
    add_count("--limit-test", help="test on the first so many samples only")
    return parser.parse_args()


class Net(nn.Module):  # type: ignore[misc]  # torch is inside the image alone
    """Two convolutions (20 and 50 maps, 5 x 5) and two linear layers: 431,080 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:  # (n, 1, 28, 28)
        # Pooling before ReLU gives the same and leaves ReLU a quarter of the work.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))  # (n, 20, 12, 12)
        x = F.relu(F.max_pool2d(self.conv2(x), 2))  # (n, 50, 4, 4)
        x = F.relu(self.fc1(x.flatten(1)))  # (n, 500)
        return self.fc2(x)  # (n, 10), unnormalized log-probabilities


@dataclass(frozen=True)
class Run:
    """What stays the same throughout a run."""

    args: argparse.Namespace
    world: World
    events: Events


def train(
    run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, samples: Samples, epoch: int
) -> tuple[float, int]:
    """Train for one epoch; return the sum of this rank's losses and the number of its samples."""
    args, world = run.args, run.world
    model.train()
    shuffle = torch.Generator().manual_seed(args.seed + epoch)  # the same order on every rank
    order = torch.randperm(len(samples), generator=shuffle)
    loss_sum, seen = 0.0, 0
    for step, (indices, global_size) in enumerate(
        batches(order, args.batch_size, world.rank, world.size)
    ):
        images, labels = samples[indices]
        loss = F.cross_entropy(model(images), labels, reduction="sum")
        loss_sum += loss.item()
        if not math.isfinite(loss_sum):
            raise FloatingPointError(f"the loss grew without bound by step {step}; lower --lr")
        optimizer.zero_grad()
        # DistributedDataParallel averages gradients over ranks. Weighted like this, the average is
        # the mean over the samples of the global batch, also where ranks have unequal shares of it.
        (loss * (world.size / global_size)).backward()
        optimizer.step()
        seen += len(labels)
        if step % args.log_interval == 0 and len(labels) > 0:
            run.events.emit(
                "step", epoch=epoch, step=step, samples=seen, loss=loss.item() / len(labels)
            )
    return loss_sum, seen


def test(model: nn.Module, samples: Samples, world: World) -> tuple[float, float]:
    """Return accuracy and mean loss over the whole test set; each rank evaluates its share."""
    model.eval()
    correct, loss_sum = 0, 0.0
    mine = torch.arange(len(samples))[world.rank :: world.size]
    with torch.no_grad():
        for indices in mine.split(EVALUATION_BATCH):
            images, labels = samples[indices]
            output = model(images)
            loss_sum += F.cross_entropy(output, labels, reduction="sum").item()
            correct += int((output.argmax(1) == labels).sum())
    all_correct, all_loss, count = world.sum(correct, loss_sum, len(mine))
    return all_correct / count, all_loss / count


def main(events: Events) -> dict[str, Any]:
    """Train and test as the arguments say; return the summary of this rank."""
    started = time.monotonic()
    args = arguments()
    torch.set_num_threads(args.threads)
    # Join before anything else can fail: then the other ranks notice at once if this one does.
    world = join(args.backend, timedelta(minutes=args.timeout), use_cuda=not args.no_cuda)
    run = Run(args, world, events)
    events.emit("started", world_size=world.size, torch=torch.__version__, **_plain(args))

    train_set = data.load(args.data, train=True, limit=args.limit_train, device=world.device)
    test_set = data.load(args.data, train=False, limit=args.limit_test, device=world.device)
    torch.manual_seed(args.seed)
    net = Net().to(world.device, memory_format=torch.channels_last)
    model = DistributedDataParallel(net)
    # The global batch grows with the world, and the learning rate with it: Goyal et al. 2017,
    # https://arxiv.org/abs/1706.02677, section 2.1.
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * world.size, momentum=args.momentum)

    accuracies: list[float] = []
    loss, samples_seen = 0.0, 0
    for epoch in range(1, args.epochs + 1):
        begun = time.monotonic()
        loss_sum, seen = train(run, model, optimizer, train_set, epoch)
        seconds = time.monotonic() - begun
        all_losses, all_seen = world.sum(loss_sum, seen)
        accuracy, test_loss = test(net, test_set, world)
        loss = all_losses / all_seen
        samples_seen += seen
        accuracies.append(round(accuracy, 4))
        events.emit(
            "epoch",
            epoch=epoch,
            loss=round(loss, 6),
            accuracy=accuracies[-1],
            test_loss=round(test_loss, 6),
            samples=seen,
            samples_per_second=round(seen / seconds, 1),
            seconds=round(seconds, 3),
        )
    return {
        "rank": world.rank,
        "world_size": world.size,
        "backend": args.backend,
        "dataset": "mnist",
        "epoch_accuracies": accuracies,
        "accuracy": accuracies[-1],
        "samples_seen": samples_seen,
        "loss": round(loss, 6),
        "duration_seconds": round(time.monotonic() - started, 3),
    }


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not allowed, it takes 1 or more")
    return number


def _plain(args: argparse.Namespace) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, Path) else v for name, v in vars(args).items()}


if __name__ == "__main__":
    report.run(main)
