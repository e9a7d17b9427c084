"""Train slipway_trainer.mnist's network on workers that may be lost, and may come back.

Alone:
    python3 -m slipway_trainer.mnist_elastic --no-cuda
Two workers on one machine, the other one with SLIPWAY_ELASTIC_INDEX=1:
    export SLIPWAY_ELASTIC_PEERS=127.0.0.1:29501,127.0.0.1:29502
    SLIPWAY_ELASTIC_INDEX=0 python3 -m slipway_trainer.mnist_elastic --no-cuda
As a PyTorchJob with an elastic policy the operator says who the workers are, and the containers
run the same line as alone.
"""

from slipway_trainer import imports  # noqa: F401, I001 - before torch

import argparse
import math
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from slipway_trainer import datasets, options, outputs, report
from slipway_trainer.account import Account
from slipway_trainer.datasets import Samples
from slipway_trainer.distributed import World, device_facts, precision
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService
from slipway_trainer.elastic.shared import Change
from slipway_trainer.events import Events
from slipway_trainer.metrics import TopKAccuracy
from slipway_trainer.mnist import Net


def arguments() -> argparse.Namespace:
    """Return the command line's arguments; raise `argparse.ArgumentError` for a wrong one."""
    parser = options.parser("slipway_trainer.mnist_elastic", __doc__)
    add = parser.add_argument
    add("--lr", type=float, default=0.01, metavar="X", help="learning rate for one worker; it is "
        "multiplied by their number, whenever that changes")  # fmt: skip
    add("--log-interval", type=options.count, default=50, metavar="STEPS", help="between two "
        "step events")  # fmt: skip
    add("--data", type=Path, default="/data/mnist", metavar="DIR", help="with MNIST/raw in it")
    add("--shard-batches", type=options.count, default=16, metavar="N", help="batches that a "
        "worker leases at a time")  # fmt: skip
    add("--step-timeout", type=float, default=8.0, metavar="SECONDS", help="how long a worker may "
        "take in a step until it counts as lost; --timeout is for the start")  # fmt: skip
    parser.set_defaults(epochs=1, batch_size=64)
    args = parser.parse_args()
    refused = {"--backend nccl": args.backend != "gloo", "--workers": args.workers > 0,
               "--profile": args.profile, "--checkpoint": args.checkpoint is not None,
               "--resume": args.resume}  # fmt: skip
    if any(refused.values()):
        names = ", ".join(name for name, is_set in refused.items() if is_set)
        raise argparse.ArgumentError(
            None, f"not allowed when workers come and go: {names}; use slipway_trainer.mnist"
        )
    return args


@dataclass
class Training:
    """A model in training on this worker, one of those that there are."""

    args: argparse.Namespace
    events: Events
    service: RecordIndexService
    train_set: Samples
    test_set: Samples
    net: nn.Module
    optimizer: torch.optim.Optimizer
    dtype: str
    controller: PyTorchAllReduceController = field(init=False)
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        self.controller = PyTorchAllReduceController(
            self.service,
            self.changed,
            timedelta(seconds=self.args.step_timeout),
            timedelta(minutes=self.args.timeout),
        )
        self.controller.set_broadcast_model(self.net)
        self.controller.set_broadcast_optimizer(self.optimizer)

    def changed(self, change: Change) -> None:
        """Tell of a new world, and fit the learning rate to it.

        The global batch grows with the world, and the learning rate with it: Goyal et al. 2017,
        https://arxiv.org/abs/1706.02677, section 2.1.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.args.lr * change.size
        told = asdict(change) | {"world_size": change.size, "world_rank": change.rank}
        del told["size"], told["rank"]
        self.events.emit("world", epoch=self.service.ledger.epoch, **told)

    def run(self) -> None:
        """Train and test, until all is done or the goal is reached."""
        elastic_step = self.controller.elastic_run(self.step)
        with self.controller.scope():
            self.controller.agree("began", self.time)
            for epoch in self.service.epochs():
                self.account = Account()
                self.account.resume()
                for indices in self.service:
                    if self.is_due() and self.validate(f"step {self.service.ledger.step}"):
                        break
                    self.account.part("data")
                    before = self.service.seen
                    mean = elastic_step(torch.tensor(indices))
                    self.tell_step(mean, self.service.seen - before)
                reached = self.validate(f"epoch {epoch}")
                self.tell_epoch(epoch)
                if reached:
                    break

    def step(self, indices: Tensor) -> float:
        """Train on one batch; return its mean loss."""
        images, labels = self.train_set[indices]
        self.optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.dtype == "bf16"):
            output = self.net(images)
        loss = F.cross_entropy(output.float(), labels)
        mean: float = loss.item()
        if not math.isfinite(mean):
            raise FloatingPointError(
                f"the loss grew without bound by step {self.service.ledger.step}; lower the "
                "learning rate"
            )
        self.controller.add(mean * len(self.service.share()))
        self.account.part("forward")
        loss.backward()
        self.account.part("backward")
        self.optimizer.step()
        self.account.part("optimizer")
        return mean

    def is_due(self) -> bool:
        """Return whether the epoch is to be interrupted for a validation here."""
        every, step = self.args.validate_every, self.service.ledger.step
        return every is not None and step > 0 and step % every == 0

    def validate(self, key: str) -> bool:
        """Evaluate the model with the others, unless they have; return whether it has to do.

        That is so from the first validation on that reached the goal, whatever others find.
        """
        self.account.pause()
        is_new = key not in self.controller.shared.agreed
        found = self.controller.agree(key, self.evaluate)
        first = self.first_to_reach()
        if is_new:
            told = {name: found[name] for name in ("accuracy", "top5_accuracy", "test_loss")}
            told |= {"step": found["step"], "elapsed_seconds": found["elapsed"]}
            self.tell("validation", **told)
            if first is found:
                took, goal = found["elapsed"], str(self.args.goal)
                self.tell("goal_reached", goal=goal, time_to_accuracy_seconds=took)
        self.account.resume()
        return first is not None

    def first_to_reach(self) -> dict[str, Any] | None:
        """Return the first validation that all agreed on and that reached the goal."""
        goal, agreed = self.args.goal, self.controller.shared.agreed
        found = [each for key, each in agreed.items() if key.startswith(("step ", "epoch "))]
        reached = [each for each in found if goal is not None and goal.reached(each)]
        return min(reached, key=lambda each: each["elapsed"], default=None)

    def evaluate(self) -> dict[str, Any]:
        """Return what the model comes to on the test set; each worker does its share."""
        self.net.eval()
        metrics = (TopKAccuracy(1), TopKAccuracy(5))
        mine = torch.arange(len(self.test_set))[self.controller.rank :: self.controller.size]
        sums = [0.0] * 5
        with torch.no_grad():
            for images, labels in self.test_set.batches(mine, self.args.test_batch_size):
                output = self.net(images)
                loss = F.cross_entropy(output, labels, reduction="sum").item()
                counts = [loss, *(n for metric in metrics for n in metric.counts(output, labels))]
                sums = [before + count for before, count in zip(sums, counts, strict=True)]
        self.net.train()
        loss, *counted = self.controller.sum(*sums)
        elapsed = self.time() - self.controller.shared.agreed["began"]
        return {
            "accuracy": round(metrics[0].value(counted[:2]), 4),
            "top5_accuracy": round(metrics[1].value(counted[2:]), 4),
            "test_loss": round(loss / counted[1], 6),
            "step": self.service.ledger.step,
            "elapsed": round(elapsed, 3),
            "losses": self.controller.shared.total,
            "counted": self.service.ledger.counted,
        }

    def time(self) -> float:
        """Return the time, the same on all workers."""
        return self.controller.sum(time.time() if self.controller.rank == 0 else 0.0)[0]

    def tell(self, event: str, **values: Any) -> None:
        """Write an event of this epoch."""
        self.events.emit(event, epoch=self.service.ledger.epoch, **values)

    def tell_step(self, mean: float, samples: int) -> None:
        """Tell of a step that counted, now and then."""
        step = self.service.ledger.step - 1
        self.account.steps += 1
        self.account.samples += samples
        if samples and step % self.args.log_interval == 0:
            self.tell("step", step=step, samples=self.account.samples, loss=mean)

    def tell_epoch(self, epoch: int) -> None:
        """Tell what an epoch came to, and how often it had each index."""
        self.account.pause()
        self.events.emit("epoch", epoch=epoch, **self.came_to(epoch), **self.account.told())
        if self.service.ledger.epoch == epoch:
            self.events.emit("ledger", **self.service.ledger.audit())

    def came_to(self, epoch: int) -> dict[str, Any]:
        """Return what all workers found out about an epoch."""
        agreed = self.controller.shared.agreed
        found, before = agreed[f"epoch {epoch}"], agreed.get(f"epoch {epoch - 1}", {})
        losses = found["losses"] - before.get("losses", 0.0)
        counted = found["counted"] - before.get("counted", 0)
        names = ("accuracy", "top5_accuracy", "test_loss")
        return {"loss": round(losses / counted, 6)} | {name: found[name] for name in names}

    def summary(self) -> dict[str, Any]:
        """Return what the job came to, for the termination message."""
        shared = self.controller.shared
        epochs = [n for n in range(1, self.args.epochs + 1) if f"epoch {n}" in shared.agreed]
        last = self.came_to(epochs[-1])
        goal, first = self.args.goal, self.first_to_reach()
        return {
            "rank": self.controller.rank,
            "world_size": self.controller.size,
            "backend": self.args.backend,
            "dataset": self.train_set.name,
            **device_facts(next(self.net.parameters()).device),
            "epoch_accuracies": [self.came_to(epoch)["accuracy"] for epoch in epochs],
            "accuracy": last["accuracy"],
            "top5_accuracy": last["top5_accuracy"],
            "samples_seen": self.service.seen,
            "total_samples_seen": self.service.ledger.counted,
            "loss": last["loss"],
            "reformations": shared.reformations,
            "longest_pause_seconds": round(shared.longest_pause, 3),
            **({"goal": str(goal), "goal_reached": first is not None} if goal is not None else {}),
            **({"time_to_accuracy_seconds": first["elapsed"]} if first is not None else {}),
        }


def main(events: Events) -> dict[str, Any]:
    """Train and test as the arguments say; return the summary of this worker."""
    started = time.monotonic()
    args = arguments()
    torch.set_num_threads(args.threads)
    is_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda" if is_cuda else "cpu")
    dtype = precision(args.precision, World(0, 1, device))
    told = {name: str(v) if isinstance(v, Path) else v for name, v in vars(args).items()}
    told["goal"] = None if args.goal is None else str(args.goal)
    events.emit("started", **told | {"torch": torch.__version__, "precision": dtype})
    outputs.prepare(args.output_dir)

    # All that takes time is done before the others are met: then they do not wait for it.
    train_set = datasets.mnist(args.data, train=True, limit=args.limit_train, device=device)
    test_set = datasets.mnist(args.data, train=False, limit=args.limit_test, device=device)
    torch.manual_seed(args.seed)
    net = Net().to(device, memory_format=torch.channels_last)
    service = RecordIndexService(
        args.batch_size,
        len(train_set),
        args.epochs,
        shuffle=True,
        dataset_name=train_set.name,
        seed=args.seed,
        shard_batches=args.shard_batches,
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum)
    training = Training(args, events, service, train_set, test_set, net, optimizer, dtype)
    training.run()
    summary = training.summary() | {"duration_seconds": round(time.monotonic() - started, 3)}
    if training.controller.rank == 0:
        outputs.save(args.output_dir / "mnist_cnn.pt", net, summary)
    return summary


if __name__ == "__main__":
    report.run(main)
