"""What the demos have in common: joining the other ranks, the training loop, and what is left.

`run` reads from top to bottom as a training program does, and `Training.epoch` is its loop.
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from slipway_trainer import outputs
from slipway_trainer.checkpoint import Checkpoints
from slipway_trainer.datasets import Samples, loaded
from slipway_trainer.distributed import World, device_facts, join, parallel, precision
from slipway_trainer.events import Events
from slipway_trainer.metrics import ClassAccuracy, Metric, TopKAccuracy
from slipway_trainer.profiling import Profiler, profiled
from slipway_trainer.sharding import batches
from slipway_trainer.tracker import Tracker
from slipway_trainer.validation import validation_round


@dataclass(frozen=True)
class Task:
    """What tells one demo from another."""

    net: Callable[[], nn.Module]
    load: Callable[..., Samples]
    data: Path
    learning_rate: float
    log_interval: int
    model_file: str
    by_class: bool = False
    """Find out each class's accuracy besides."""


@dataclass
class Training:
    """A model in training, on one of the ranks that do so together."""

    task: Task
    args: argparse.Namespace
    world: World
    tracker: Tracker
    train_set: Samples
    test_set: Samples
    net: nn.Module
    model: nn.Module
    """`net`, made to average its gradients over all ranks."""
    optimizer: torch.optim.Optimizer
    dtype: str
    checkpoints: Checkpoints | None
    position: int = 0
    """How many samples of this epoch all ranks together have trained on."""
    steps: int = 0
    """Of the whole run."""

    def epoch(self, profiler: Profiler) -> None:
        """Train on what is left of the epoch, or until a validation reaches the goal."""
        args, world, tracker = self.args, self.world, self.tracker
        self.model.train()
        tracker.train()
        shuffle = torch.Generator().manual_seed(args.seed + tracker.epoch)  # alike on all ranks
        order = torch.randperm(len(self.train_set), generator=shuffle)
        tracker.steps_of_epoch = math.ceil(len(order) / (args.batch_size * world.size))
        shares = batches(order, args.batch_size, world.rank, world.size, start=self.position)
        for images, labels, global_size in loaded(self.train_set, shares, args.workers):
            tracker.batch_start()
            loss = F.cross_entropy(self.forward(images), labels, reduction="sum")
            tracker.record_batch_step("forward")
            self.optimizer.zero_grad()
            # DistributedDataParallel averages gradients over ranks. Weighted like this, the
            # average is the mean over the global batch's samples, also where ranks have unequal
            # shares of it.
            (loss * (world.size / global_size)).backward()
            tracker.record_batch_step("backward")
            self.optimizer.step()
            tracker.batch_end(len(labels))
            self.position += global_size
            self.steps += 1

            step = (self.position - 1) // (args.batch_size * world.size)
            is_told = step % self.task.log_interval == 0
            if is_told:
                self.require_bound(float(loss), f"step {step}")
            tracker.record_loss(loss.detach().double(), len(labels), log_to_api=is_told)
            profiler.step()
            # The state is whole here: a step is done on all ranks, the next one not begun.
            every = args.validate_every
            if every is not None and (step + 1) % every == 0 and self.position < len(order):
                self.validate()
                if tracker.goal_reached:
                    return
                tracker.train()
            if self.checkpoints is not None and self.steps % args.checkpoint_every == 0:
                self.checkpoints.save(self.steps, self.net, self.optimizer, self.progress())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the model's outputs (n, classes) for pictures (n, colors, height, width)."""
        is_half = self.dtype == "bf16"
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=is_half):
            output: torch.Tensor = self.model(images)
        return output.float()

    def progress(self) -> dict[str, Any]:
        """Return how far this rank has come, in plain values."""
        return {"steps": self.steps, "position": self.position, "tracker": self.tracker.state()}

    def begin(self) -> None:
        """Begin anew, or go on from the newest checkpoint, as the arguments say.

        Raises:
            ValueError: the one or the other can't be done with the checkpoints that there are.
        """
        if self.checkpoints is None:
            if self.args.resume:
                raise ValueError("--resume needs --checkpoint, the directory to go on from")
            return
        if not self.args.resume:
            self.checkpoints.refuse_others()
            return
        state = self.checkpoints.newest()
        if state is None:
            return
        # After two steps DistributedDataParallel puts gradients together in another way, which of
        # three ranks and more adds them up in another order: that decides on a sum's last bit.
        for _ in range(min(2, state["step"])):
            images, labels = next(self.train_set.batches(torch.arange(1), 1))
            F.cross_entropy(self.forward(images), labels).backward()
        progress = self.checkpoints.restore(state, self.net, self.optimizer)
        self.steps, self.position = progress["steps"], progress["position"]
        self.tracker.restore(progress["tracker"])

    def validate(self) -> None:
        """Evaluate the model on the whole test set; each rank does its share.

        Raises:
            FloatingPointError: what was trained so far, or what that led to, has no finite loss.
        """
        world = self.world
        # Steps that are not told of count here.
        self.require_bound(self.tracker.mean_loss or 0.0, "the validation")
        mine = torch.arange(len(self.test_set))[world.rank :: world.size]
        found = validation_round(
            self.test_set.batches(mine, self.args.test_batch_size),
            self.net,
            F.cross_entropy,
            self.tracker.metrics,
            run_id=None,
            rank=world.rank,
            dtype=self.dtype,
            tracker=self.tracker,
        )
        self.require_bound(found["loss"], "the validation")

    def require_bound(self, loss: float, when: str) -> None:
        """Raise `FloatingPointError` when the loss is no finite number."""
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss grew without bound by {when} in epoch {self.tracker.epoch}; lower the "
                "learning rate"
            )


def run(task: Task, args: argparse.Namespace, events: Events) -> dict[str, Any]:
    """Train and test as the arguments say; return the summary of this rank."""
    started = time.monotonic()
    training = prepare(task, args, events)
    world, tracker = training.world, training.tracker
    outputs.prepare(args.output_dir)
    tracker.start()
    training.begin()
    trace = args.output_dir / "profile" if args.profile else None
    with profiled(trace, world.rank) as profiler:
        while tracker.epoch <= args.epochs and not tracker.goal_reached:
            training.epoch(profiler)
            if not tracker.goal_reached:
                training.validate()
            tracker.epoch_end()
            training.position = 0
    told = {"backend": args.backend, "dataset": training.train_set.name}
    told |= device_facts(world.device)
    summary = tracker.summary() | told | {"duration_seconds": round(time.monotonic() - started, 3)}
    if world.rank == 0:
        outputs.save(args.output_dir / task.model_file, training.net, summary)
    return summary


def prepare(task: Task, args: argparse.Namespace, events: Events) -> Training:
    """Join the other ranks, read the data, and build what is to be trained."""
    torch.set_num_threads(args.threads)
    # Join before anything else can fail: then the other ranks notice at once if this one does.
    world = join(args.backend, timedelta(minutes=args.timeout), use_cuda=not args.no_cuda)
    dtype = precision(args.precision, world)
    facts = {"world_size": world.size, "torch": torch.__version__, "precision": dtype}
    events.emit("started", **_plain(args) | facts)

    train_set = task.load(task.data, train=True, limit=args.limit_train, device=world.device)
    test_set = task.load(task.data, train=False, limit=args.limit_test, device=world.device)
    metrics: list[Metric] = [TopKAccuracy(1), TopKAccuracy(5)]
    if task.by_class:
        metrics.append(ClassAccuracy(test_set.classes))
    tracker = Tracker(metrics, os.environ.get("SLIPWAY_RUN_ID"), world.rank, args.goal, events)
    torch.manual_seed(args.seed)
    net = task.net().to(world.device, memory_format=torch.channels_last)
    torch.manual_seed(args.seed + world.rank)  # dropout drops something else on each rank
    # The global batch grows with the world, and the learning rate with it: Goyal et al. 2017,
    # https://arxiv.org/abs/1706.02677, section 2.1.
    rate = task.learning_rate * world.size
    itself = {
        "the data set": train_set.name, "the number of samples": len(train_set),
        "the batch size": args.batch_size, "the learning rate": task.learning_rate,
        "the momentum": args.momentum, "the seed": args.seed, "the precision": dtype,
    }  # fmt: skip
    checkpoints = Checkpoints(args.checkpoint, world, events, itself) if args.checkpoint else None
    return Training(
        task, args, world, tracker, train_set, test_set, net, model=parallel(net, world),
        optimizer=torch.optim.SGD(net.parameters(), lr=rate, momentum=args.momentum), dtype=dtype,
        checkpoints=checkpoints,
    )  # fmt: skip


def _plain(args: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value if isinstance(value, int | float | str | None) else str(value)
        for name, value in vars(args).items()
    }
