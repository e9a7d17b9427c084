"""Keeps the state of a training in files, to go on from after whatever stopped it.

A checkpoint is one file, which rank 0 writes: model, optimizer, and of every rank its random
numbers and how far it has come. So it can't be there for some ranks only. It gets its name,
step-000000200.<sha256, 16 digits>.pt, when all of it is on the disk; what is cut off or changed
later no longer fits its name. `torch.load(path, weights_only=True)` reads it.
"""

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from slipway_trainer.distributed import World
from slipway_trainer.events import Events

FORMAT = 1
KEPT = 2
_DIGITS = 16


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training. All ranks must call each method, at the same step.

    Args:
        directory: Where they lie; only rank 0 needs to see it.
        world: The ranks that train.
        events: Where to tell of each.
        settings: What a training that goes on must have in common with the one that stopped.
    """

    directory: Path
    world: World
    events: Events
    settings: dict[str, Any]

    def save(
        self,
        step: int,
        net: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Mapping[str, Any],
    ) -> None:
        """Write the state after `step` steps; of older ones only the last stays.

        Args:
            step: How many steps the run has done.
            net: The model, the same on all ranks.
            optimizer: Its optimizer, the same on all ranks.
            progress: What this rank goes on from, in plain values.
        """
        begun = time.monotonic()
        ranks: list[Any] = [None] * self.world.size
        own = {"progress": dict(progress), "random": _random_state(self.world.device)}
        dist.all_gather_object(ranks, own)
        if self.world.rank != 0:
            return
        state = {
            "format": FORMAT,
            "step": step,
            "settings": self._settings,
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "ranks": ranks,
        }
        path = _write(self.directory, step, state)
        # Files of later steps are what a training that went on from an earlier one left behind.
        older = [each for each in self._files() if _step(each) < step]
        for each in {*self._files()} - {path, *older[-(KEPT - 1) :]}:
            each.unlink()
        self.events.emit(
            "checkpoint",
            step=step,
            path=str(path),
            bytes=path.stat().st_size,
            seconds=round(time.monotonic() - begun, 3),
        )

    def newest(self) -> dict[str, Any] | None:
        """Return the newest checkpoint that is whole, None when there is none yet.

        Raises:
            ValueError: it belongs to a training with other settings, or none of them is whole.
        """
        # One rank reads, so all of them go on from the same one, and the others need not see it.
        read = [self._read() if self.world.rank == 0 else None]
        dist.broadcast_object_list(read)
        return read[0]

    def restore(
        self, state: Mapping[str, Any], net: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """Bring model, optimizer and random numbers to `state`; return this rank's progress."""
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        own: dict[str, Any] = state["ranks"][self.world.rank]
        _restore_random(own["random"], self.world.device)
        self.events.emit("resumed", step=state["step"])
        progress: dict[str, Any] = own["progress"]
        return progress

    def refuse_others(self) -> None:
        """See that a training that starts anew doesn't write among another one's checkpoints.

        Raises:
            ValueError: there are some.
        """
        if self.world.rank == 0 and self._files():
            raise ValueError(
                f"--checkpoint {self.directory} has checkpoints already: add --resume to go on "
                "from the newest, or name another directory to start anew"
            )

    @property
    def _settings(self) -> dict[str, Any]:
        return {"the world size": self.world.size, **self.settings}

    def _files(self) -> list[Path]:
        """Return the checkpoints, the newest last."""
        return sorted(self.directory.glob("step-*.pt"))

    def _read(self) -> dict[str, Any] | None:
        files = self._files()
        for path in reversed(files):
            with path.open("rb") as file:
                digest = file_digest(file, "sha256").hexdigest()[:_DIGITS]
            if path.name.split(".")[1] != digest:
                text = f"{path} is not as it was written, so the checkpoint before it is used"
                self.events.emit("warning", warning=text)
                continue
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            self._check(path, state)
            return state
        if files:
            raise ValueError(
                f"none of the checkpoints in {self.directory} is as it was written: remove them "
                "to start from the beginning"
            )
        return None

    def _check(self, path: Path, state: Mapping[str, Any]) -> None:
        if state["format"] != FORMAT:
            raise ValueError(
                f"{path} has format {state['format']}, and this trainer reads {FORMAT} alone: "
                "go on with the trainer that wrote it, or name another directory"
            )
        then, now = state["settings"], self._settings
        changed = [
            f"{name} was {then.get(name)} and is {now[name]}"
            for name in now
            if then.get(name) != now[name]
        ]
        if changed:
            raise ValueError(
                f"{path} belongs to another training: {'; '.join(changed)}. Go on as it was "
                "begun, or name another directory to start anew"
            )


def _step(path: Path) -> int:
    return int(path.name.split(".")[0].removeprefix("step-"))


def _write(directory: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write a checkpoint so that it is there as a whole or not at all, whatever happens."""
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / ".part"
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    with part.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()[:_DIGITS]
    path = part.replace(directory / f"step-{step:09}.{digest}.pt")
    # A new name lasts when its directory is on the disk, too: fsync(2).
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return path


def _random_state(device: torch.device) -> dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _restore_random(state: Mapping[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
