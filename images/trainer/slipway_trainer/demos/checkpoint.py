"""Checkpoints for the demos: `slipway.checkpoints`, plus the state of each rank.

The model and optimizer are the same on all ranks; a checkpoint also contains each rank's random
state and progress. So with the same number of ranks, training resumes bit for bit.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - its usual name

from slipway.checkpoint_store import Store, agreed
from slipway.checkpoints import stopping
from slipway_trainer.training import report
from slipway_trainer.training.distributed import World, total
from slipway_trainer.training.tracker import regrouped

if TYPE_CHECKING:
    from slipway_trainer.demos.loop import Training


@dataclass
class Checkpoints:
    """The checkpoints of one training run. All ranks must call each method, at the same step."""

    store: Store
    """The directory, which only rank 0 needs, and the interval, measured by rank 0's clock."""
    world: World
    is_last: bool = False
    """True if a rank received SIGTERM and will exit after the next checkpoint."""

    def begin(self, training: "Training", state: Mapping[str, Any] | None) -> None:
        """Start the checkpoint interval, and resume from `state`, a checkpoint, if it is not None.

        If the number of ranks has changed, the learning rate and random state start afresh.
        """
        self.store.written = time.monotonic()
        report.saves.set()
        if state is None:
            return
        # After two steps, DistributedDataParallel changes its buckets. With three or more ranks
        # this changes the order of additions, and so the last bit of a sum.
        for _ in range(min(2, state["step"])):
            images, labels = training.first(1)
            F.cross_entropy(training.forward(images), labels).backward()
        rates = [group["lr"] for group in training.optimizer.param_groups]
        training.net.load_state_dict(state["model"])
        training.optimizer.load_state_dict(state["optimizer"])
        self.store.resumed(state["step"])
        ranks, rank = state["ranks"], self.world.rank
        if len(ranks) == self.world.size:
            _restore_random(ranks[rank]["random"], self.world.device)
            progress = ranks[rank]["progress"]
        else:
            for group, rate in zip(training.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            tracked = regrouped([each["progress"]["tracker"] for each in ranks], rank)
            progress = {**ranks[0]["progress"], "tracker": tracked}
        training.steps, training.position = progress["steps"], progress["position"]
        training.tracker.restore(progress["tracker"])

    def due(self, step: int) -> bool:
        """Return whether all ranks must save after `step` steps: if due, or if any got SIGTERM."""
        is_due = self.world.rank == 0 and self.store.due(step)
        due, stopped = total(float(is_due), float(stopping.is_set()))
        self.is_last = stopped > 0
        return due + stopped > 0

    def save(self, training: "Training") -> None:
        """Write the state after the last step; a rank that got SIGTERM then exits."""
        training.tracker.validation()  # The save does not count as training.
        ranks: list[Any] = [None] * self.world.size
        progress = {
            "steps": training.steps,
            "position": training.position,
            "precision": training.dtype,
            "tracker": training.tracker.state(),
        }
        own = {"progress": progress, "random": _random_state(self.world.device)}
        dist.all_gather_object(ranks, own)
        if self.world.rank == 0:
            model, optimizer = training.net.state_dict(), training.optimizer.state_dict()
            state = {"model": model, "optimizer": optimizer, "ranks": ranks}
            self.store.write_beside(state, training.steps)
            if self.is_last:
                # Once a rank has exited, the next step fails, which ends this rank, too.
                self.store.settle()
        self.store.written = time.monotonic()
        if self.is_last and stopping.is_set():
            report.end_terminated(self.store.events)
        training.tracker.train()

    def newest(self) -> dict[str, Any] | None:
        """Return the newest valid checkpoint, on all ranks; see `Store.newest`."""
        # Only rank 0 reads, so all ranks get the same checkpoint, and the others need no access.
        return agreed(self.store.newest() if self.world.rank == 0 else None)


def _random_state(device: torch.device) -> dict[str, Any]:
    on_gpu = {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {}
    return {"torch": torch.get_rng_state(), "python": random.getstate(), **on_gpu}


def _restore_random(state: Mapping[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
