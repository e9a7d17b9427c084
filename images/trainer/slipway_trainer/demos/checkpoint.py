"""The checkpoints of the demos: `slipway.checkpoints`, with what each rank goes on from.

Model and optimizer are the same on all ranks; besides them a checkpoint has of every rank its
random numbers and how far it has come. So a training goes on bit for bit where as many ranks do.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from slipway.checkpoint_store import Store
from slipway.checkpoints import stopping
from slipway_trainer.training import report
from slipway_trainer.training.distributed import World, total
from slipway_trainer.training.tracker import regrouped


@dataclass
class Checkpoints:
    """The checkpoints of one training. All ranks must call each method, at the same step."""

    store: Store
    """Where they lie, which only rank 0 needs to see, and how far apart: rank 0's clock counts."""
    world: World
    is_last: bool = False
    """Whether a rank got SIGTERM, and ends with the next one."""

    def due(self, step: int) -> bool:
        """Return whether all ranks are to save after `step` steps: also once one got SIGTERM."""
        is_due = self.world.rank == 0 and self.store.due(step)
        due, stopped = total(float(is_due), float(stopping.is_set()))
        self.is_last = stopped > 0
        return due + stopped > 0

    def save(
        self, step: int, net: nn.Module, optimizer: torch.optim.Optimizer, progress: dict[str, Any]
    ) -> None:
        """Write the state after `step` steps of the run; a rank that got SIGTERM ends with it.

        `progress` is what this rank goes on from, in plain values.
        """
        ranks: list[Any] = [None] * self.world.size
        own = {"progress": progress, "random": _random_state(self.world.device)}
        dist.all_gather_object(ranks, own)
        if self.world.rank == 0:
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            self.store.write_beside({**state, "ranks": ranks}, step)
            if self.is_last:
                # The next step fails where a rank has ended, and this one with it.
                self.store.settle()
        self.store.written = time.monotonic()
        if self.is_last and stopping.is_set():
            report.end_terminated(self.store.events)

    def newest(self) -> dict[str, Any] | None:
        """Return the newest checkpoint that is whole, on all ranks; as `Store.newest`."""
        state = None
        # One rank reads, so all of them go on from the same one, and the others need not see it.
        if self.world.rank == 0:
            state = self.store.newest()
        read = [state]
        dist.broadcast_object_list(read)
        return read[0]

    def restore(
        self, state: Mapping[str, Any], net: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """Bring model, optimizer and random numbers to `state`; return this rank's progress.

        Where another number of ranks goes on, each has the learning rate and the random numbers
        that it began with, and rank 0 what all of the former ranks had counted.
        """
        rates = [group["lr"] for group in optimizer.param_groups]
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        self.store.events.emit("resumed", step=state["step"])
        ranks, rank = state["ranks"], self.world.rank
        if len(ranks) == self.world.size:
            _restore_random(ranks[rank]["random"], self.world.device)
            progress: dict[str, Any] = ranks[rank]["progress"]
            return progress
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        tracked = regrouped([each["progress"]["tracker"] for each in ranks], rank)
        return {**ranks[0]["progress"], "tracker": tracked}


def _random_state(device: torch.device) -> dict[str, Any]:
    on_gpu = {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {}
    return {"torch": torch.get_rng_state(), "python": random.getstate(), **on_gpu}


def _restore_random(state: Mapping[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
