"""Train slipway_trainer.mnist's network on workers that may be lost and come back.

A single worker:
    python3 -m slipway_trainer.mnist_elastic --no-cuda
Two workers on one machine; start the second with SLIPWAY_ELASTIC_INDEX=1:
    export SLIPWAY_ELASTIC_PEERS=127.0.0.1:29501,127.0.0.1:29502
    SLIPWAY_ELASTIC_INDEX=0 python3 -m slipway_trainer.mnist_elastic --no-cuda
The containers in a PyTorchJob with an elastic policy run the single-worker command.
"""

import slipway_trainer.demos.options  # noqa: F401, I001 - before torch

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.profiler import profile

from slipway_trainer.training import report
from slipway_trainer.demos import loop, mnist, options
from slipway_trainer.training.distributed import World
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService
from slipway_trainer.elastic.replica import Change
from slipway.events import Events

Result = TypeVar("Result")

PARSER = options.parser(
    "slipway_trainer.mnist_elastic", __doc__, data="/data/mnist", lr=0.01, log_interval=50,
    epochs=1, batch_size=64, backend="gloo",
)  # fmt: skip
PARSER.add_argument("--step-timeout", type=float, default=8.0, metavar="SECONDS", help="how long a "
    "worker may spend on a step before it is considered lost; at startup, --timeout applies"
)  # fmt: skip


def arguments() -> argparse.Namespace:
    """Return the command-line arguments; raise `argparse.ArgumentError` if one is invalid."""
    args = PARSER.parse_args()
    refused = {"--backend nccl": args.backend != "gloo", "--workers": args.workers > 0,
               "--profile": args.profile, "--compile": args.compile is not None}  # fmt: skip
    if any(refused.values()):
        names = ", ".join(name for name, is_set in refused.items() if is_set)
        raise argparse.ArgumentError(
            None, f"not available in elastic training: {names}; use slipway_trainer.mnist"
        )
    return args


class Training(loop.Training):
    """The training of `loop.Training`, on the current workers in an elastic job.

    Results that workers agree on are part of the job's state: a late worker skips the epochs and
    validations it missed, without training, and adopts the others' results.
    """

    def __init__(self, args: argparse.Namespace, events: Events) -> None:
        is_cuda = not args.no_cuda and torch.cuda.is_available()
        alone = World(0, 1, torch.device("cuda" if is_cuda else "cpu"))
        # Slow work comes before the rendezvous, so that the other workers do not wait for it.
        super().__init__(mnist.TASK, args, events, alone)
        self.checkpoints = None  # the controller writes them
        data = self.train_set
        self.service = RecordIndexService(
            args.batch_size, len(data), args.epochs, dataset_name=data.name, seed=args.seed
        )
        limits = timedelta(seconds=args.step_timeout), timedelta(minutes=args.timeout)
        self.controller = PyTorchAllReduceController(self.service, self.changed, *limits)
        self.controller.set_broadcast_model(self.net)
        self.controller.set_broadcast_optimizer(self.optimizer)
        self.tracker.total = self.controller.sum
        self._epochs = self.service.epochs()
        self._agreed: set[str] = set()

    def joined(self) -> AbstractContextManager[object]:
        return self.controller.scope()

    def changed(self, change: Change) -> None:
        """Report a new world, and scale the learning rate to its size, as for a fixed world."""
        self.world = World(change.rank, change.size, self.world.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.args.lr * change.size
        fields = asdict(change) | {"world_size": change.size, "world_rank": change.rank}
        del fields["size"], fields["rank"]
        self.events.emit("world", epoch=self.service.ledger.epoch, **fields)

    def begin(self) -> None:
        super().begin()
        began = self.agree("began", lambda: self._of_rank_0(time.time()))
        self.tracker.start(time.time() - began)

    def epoch(self, profiler: profile | None) -> None:
        epoch = self.tracker.epoch
        for key in [*self.controller.shared.agreed]:
            if key.startswith(f"epoch {epoch}, ") and key not in self._agreed:
                self.validate(key)
        # The others may have completed the epoch without this worker.
        if not self.tracker.goal_reached and self.service.ledger.epoch <= epoch:
            next(self._epochs, None)  # closes the previous one
            super().epoch(profiler)

    def shares(self) -> Iterator[tuple[Tensor, float]]:
        for indices in self.service:
            ledger = self.service.ledger
            self.steps, self.position = ledger.step, ledger.position
            # The gradients of a worker's mean loss are weighted by its share of the samples.
            yield torch.tensor(indices), 1 / len(indices) if self.service.share() else 0.0

    def together(self, step: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return self.controller.elastic_run(step)

    def made_step(self) -> int:
        self.steps = self.service.ledger.step
        return self.steps - 1

    def agree(self, key: str, work: Callable[[], Result]) -> Result:
        self._agreed.add(key)
        return self.controller.agree(key, work)

    def evaluate(self) -> tuple[dict[str, Any], float]:
        values, elapsed = super().evaluate()
        return values, self._of_rank_0(elapsed)

    def end_epoch(self) -> None:
        epoch = self.tracker.epoch
        super().end_epoch()
        if self.service.ledger.epoch == epoch:
            self.events.emit("ledger", **self.service.ledger.audit())

    def summary(self) -> dict[str, Any]:
        shared = self.controller.shared
        return super().summary() | {
            "rank": self.controller.rank,
            "world_size": self.controller.size,
            "step_seconds": {run: round(each, 3) for run, each in shared.step_seconds.items()},
            "samples_seen": self.service.seen,
            "total_samples_seen": self.service.ledger.counted,
            "reformations": shared.reformations,
            "longest_pause_seconds": round(shared.longest_pause, 3),
        }

    def _of_rank_0(self, value: float) -> float:
        return self.controller.sum(value if self.controller.rank == 0 else 0.0)[0]


if __name__ == "__main__":
    report.run(lambda events: Training(arguments(), events).run())
