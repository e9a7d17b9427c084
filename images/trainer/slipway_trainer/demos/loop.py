"""Code that the demos share: joining the other ranks, the training loop, and the outputs.

`Training.run` reads from top to bottom like a training program, and `Training.epoch` is its
loop. `mnist_elastic` uses both, for workers that join and leave.
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor
from torch.profiler import profile

from slipway import checkpoints
from slipway.events import Events
from slipway_trainer.data.ledger import batches
from slipway_trainer.demos import outputs
from slipway_trainer.demos.checkpoint import Checkpoints
from slipway_trainer.demos.precision import DTYPES, PROBED, choose
from slipway_trainer.training import distributed, report
from slipway_trainer.training.distributed import World
from slipway_trainer.training.metrics import ClassAccuracy, Metric, TopKAccuracy
from slipway_trainer.training.tracker import Tracker
from slipway_trainer.training.validation import evaluate

Result = TypeVar("Result")
_BEGAN = time.monotonic()  # before this rank joins the others


def main(
    parser: argparse.ArgumentParser, task: Callable[[argparse.Namespace], outputs.Task]
) -> None:
    """Train with a fixed world size and the command-line options, store the result, and exit."""

    def train(events: Events) -> dict[str, Any]:
        args = parser.parse_args()
        # Join before anything can fail, so that the other ranks notice a failure immediately.
        use_cuda = not args.no_cuda
        args.backend = args.backend or distributed.default_backend(use_cuda)
        world = distributed.join(args.backend, timedelta(minutes=args.timeout), use_cuda)
        return Training(task(args), args, events, world).run()

    report.run(train)


class Training:
    """A model in training, on one of the ranks that train together.

    `position` is the number of this epoch's samples that all ranks together have trained on;
    `steps` counts the run's steps; `model` wraps `net` to average gradients over all ranks.
    """

    def __init__(
        self, task: outputs.Task, args: argparse.Namespace, events: Events, world: World
    ) -> None:
        self.task, self.args, self.events, self.world = task, args, events, world
        self.position = self.steps = 0
        if args.threads is not None:
            torch.set_num_threads(args.threads)
        self.train_set, self.test_set = (
            task.load(args.data, train=train, limit=limit, device=world.device)
            for train, limit in ((True, args.limit_train), (False, args.limit_test))
        )
        metrics: list[Metric] = [TopKAccuracy(1), TopKAccuracy(5)]
        if task.by_class:
            metrics.append(ClassAccuracy(self.test_set.classes))
        run_id = os.environ.get("SLIPWAY_RUN_ID")
        self.tracker = Tracker(metrics, run_id, world.rank, args.goal, events)
        torch.manual_seed(args.seed)
        self.net = task.net(len(self.train_set.classes))
        self.net.to(world.device, memory_format=torch.channels_last)
        if args.compile is not None:
            self.net.compile(backend=args.compile)
        torch.manual_seed(args.seed + world.rank)  # dropout differs between ranks
        self.model = distributed.parallel(self.net, world)
        # The learning rate grows with the global batch, and so with the world: Goyal et al. 2017,
        # https://arxiv.org/abs/1706.02677, section 2.1.
        rate = args.lr * world.size
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=args.momentum)
        self.dtype = DTYPES.get(args.precision)  # None: `begin` chooses
        self.ratio: float | None = None
        self.predictions: outputs.Predictions | None = None
        store = checkpoints.own_store(events)
        self.checkpoints = None if store is None else Checkpoints(store, world)

    def run(self) -> dict[str, Any]:
        """Train and test with the arguments; return this rank's summary."""
        args, tracker = self.args, self.tracker
        # Early, so that an unusable directory fails the run at once, not at its end.
        args.output_dir.mkdir(parents=True, exist_ok=True)
        if not os.access(args.output_dir, os.W_OK):
            raise PermissionError(f"--output-dir {args.output_dir} is not writable: choose another")
        trace = args.output_dir / "profile" if args.profile else None
        with self.joined(), outputs.profiled(trace, self.world.rank) as profiler:
            self.begin()
            while tracker.epoch <= args.epochs and not tracker.goal_reached:
                self.epoch(profiler)
                if not tracker.goal_reached:
                    self.validate(f"epoch {tracker.epoch}")
                self.end_epoch()
        if self.checkpoints is not None:
            self.checkpoints.store.settle()
        summary = self.summary()
        if summary["rank"] == 0:
            outputs.save(args.output_dir / self.task.model_file, self.net, summary)
            if self.predictions is not None:
                self.predictions.save(args.output_dir / outputs.PREDICTIONS, self.test_set)
        return summary

    def epoch(self, profiler: profile | None) -> None:
        """Train on the rest of the epoch, or until a validation reaches the goal."""
        args, tracker = self.args, self.tracker
        self.model.train()
        tracker.train()
        train_step = self.together(self.step)
        for images, labels, weight in self.train_set.loaded(self.shares(), args.workers):
            # The state is consistent here: all ranks are between two steps.
            every = args.validate_every
            if every is not None and self.position > 0 and self.steps % every == 0:
                self.validate(f"epoch {tracker.epoch}, step {self.steps}")
                if tracker.goal_reached:
                    return
                tracker.train()
            tracker.batch_start()
            loss = train_step(images, labels, weight)
            samples = len(labels) if weight > 0 else 0
            tracker.batch_end(samples)
            is_logged = self.made_step() % args.log_interval == 0
            if is_logged:
                self.require_bound(float(loss), f"step {self.steps}")
            if samples > 0:
                tracker.record_loss(loss.double(), samples, log_to_api=is_logged)
            if profiler is not None:
                profiler.step()
            if self.checkpoints is not None and self.checkpoints.due(self.steps):
                self.checkpoints.save(self)

    def step(self, images: Tensor, labels: Tensor, weight: float) -> Tensor:
        """Train on one batch, with weighted gradients, and return the sum of its losses."""
        loss = F.cross_entropy(self.forward(images), labels, reduction="sum")
        self.tracker.record_batch_step("forward")
        self.optimizer.zero_grad()
        (loss * weight).backward()
        self.tracker.record_batch_step("backward")
        self.optimizer.step()
        return loss.detach()

    def forward(self, images: Tensor) -> Tensor:
        """Return the model's outputs (n, classes) for images (n, colors, height, width)."""
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.dtype == "bf16"):
            output: Tensor = self.model(images)
        return output.float()

    def validate(self, when: str) -> None:
        """Evaluate the model on the whole test set, of which each rank evaluates a share."""
        # Covers steps that are not logged.
        self.require_bound(self.tracker.mean_loss or 0.0, "the validation")
        self.tracker.validation()
        values, elapsed = self.agree(when, self.evaluate)
        self.require_bound(values["loss"], "the validation")
        self.tracker.record_validation(values, elapsed)

    def evaluate(self) -> tuple[dict[str, Any], float]:
        """Return the metrics over the whole test set, and the elapsed time in seconds."""
        mine = torch.arange(len(self.test_set))[self.world.rank :: self.world.size]
        shares = self.test_set.batches(mine, self.args.test_batch_size, self.args.workers)
        distributed.synchronize_buffers(self.net)
        self.predictions = outputs.Predictions(self.test_set.classes, mine)
        metrics, total = (*self.tracker.metrics, self.predictions), self.tracker.total
        dtype = "fp32" if self.dtype is None else self.dtype
        values = evaluate(shares, self.net, F.cross_entropy, metrics, total, dtype)
        del values[self.predictions.name]
        return values, self.tracker.elapsed

    def end_epoch(self) -> None:
        """Report the epoch, and start the next one."""
        key = f"end of epoch {self.tracker.epoch}"
        self.tracker.epoch_end(self.agree(key, self.tracker.total_loss))
        self.position = 0

    def begin(self) -> None:
        """Resume from the job's newest checkpoint, or start from scratch if there is none."""
        args = self.args
        state = None if self.checkpoints is None else self.checkpoints.newest()
        if self.dtype is None and state is not None:
            self.dtype = state["ranks"][0]["progress"]["precision"]
        if self.dtype is None:
            few = self.first(min(args.batch_size, PROBED))
            total = self.tracker.total
            self.dtype, self.ratio = self.agree("precision", lambda: choose(self.net, *few, total))
        self.events.emit("started", **vars(args) | self.facts())
        self.tracker.start()
        if self.checkpoints is not None:
            self.checkpoints.begin(self, state)

    def first(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the first images in the training set, and their labels."""
        return self.train_set.placed(*self.train_set[torch.arange(min(len(self.train_set), count))])

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run, for this rank's termination message."""
        settings = {"backend": self.args.backend, "dataset": self.train_set.name}
        seconds = round(time.monotonic() - _BEGAN, 3)
        return self.tracker.summary() | settings | self.facts() | {"duration_seconds": seconds}

    def facts(self) -> dict[str, Any]:
        """Return facts about the training run and its device, for events and the result."""
        device = self.world.device
        facts: dict[str, Any] = {"world_size": self.world.size, "precision": self.dtype}
        if self.ratio is not None:
            facts["precision_ratio"] = self.ratio
        facts |= {"device": device.type, "torch": str(torch.__version__)}
        if device.type == "cuda":
            facts["device_name"] = torch.cuda.get_device_name(device)
        return facts

    def require_bound(self, loss: float, when: str) -> None:
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss diverged by {when} in epoch {self.tracker.epoch}; lower the learning "
                "rate"
            )

    # The elastic demo overrides the following methods.

    def joined(self) -> AbstractContextManager[object]:
        """Return the context to train in; it does nothing here, since the ranks already joined."""
        return nullcontext()

    def shares(self) -> Iterator[tuple[Tensor, float]]:
        """Yield this rank's indices for each remaining step in the epoch, and their weight."""
        shuffle = torch.Generator().manual_seed(self.args.seed + self.tracker.epoch)  # on all ranks
        order = torch.randperm(len(self.train_set), generator=shuffle)
        batch_size, world = self.args.batch_size, self.world
        self.tracker.steps_of_epoch = math.ceil(len(order) / (batch_size * world.size))
        for mine, size in batches(order, batch_size, world.rank, world.size, start=self.position):
            # DistributedDataParallel averages gradients over ranks. This weight turns that into the
            # mean over the global batch's samples, even if the ranks' shares are unequal.
            yield mine, world.size / size

    def together(self, step: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return `step`, coordinated with the other ranks; here, the model itself does that."""
        return step

    def made_step(self) -> int:
        """Count a step; return its number within the epoch, from 0."""
        global_batch: int = self.args.batch_size * self.world.size
        self.position = min(self.position + global_batch, len(self.train_set))
        self.steps += 1
        return (self.position - 1) // global_batch

    def agree(self, key: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which is the same on all ranks in a fixed world."""
        return work()
