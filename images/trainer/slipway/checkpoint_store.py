"""Write checkpoints when they are due, optionally in the background, and read them."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.events import Events

KEPT = 2
_DIGITS = 16


@dataclass
class Store:
    """The checkpoints in a directory; only the last `keep` are kept.

    Writing a checkpoint in the background needs CPU memory for a copy of the state. A thread writes
    one checkpoint at a time; an error there becomes a warning event.
    """

    directory: Path
    every: int
    """The interval, in steps or seconds."""
    counts_steps: bool
    events: Events
    keep: int = KEPT
    written: float = field(default_factory=time.monotonic)
    """Time of the last checkpoint or, before the first, of the store's creation."""
    _asked: tuple[int, int] = (0, 0)
    """The last two steps that `due` was asked for; at first the one that training resumed from."""
    _thread: threading.Thread | None = None

    def files(self) -> list[Path]:
        """Return the checkpoints, newest last."""
        return sorted(self.directory.glob("step-*.pt"))

    def write(self, state: Mapping[str, Any], step: int) -> Path:
        """Write a state atomically, remove old checkpoints, and return the new file.

        Raises `ValueError` if the state contains anything but tensors and plain values.
        """
        import torch  # noqa: PLC0415 - the package also works without torch

        begun = time.monotonic()
        self.directory.mkdir(parents=True, exist_ok=True)
        for left in self.directory.glob(".*.part"):
            left.unlink(missing_ok=True)  # left by a killed process
        part = self.directory / f".{os.getpid()}.part"
        try:
            with part.open("wb") as file:
                try:
                    torch.save({**state, "step": step}, file)
                except RuntimeError:
                    # torch hides why a write failed: another raises the OSError, if there is one.
                    file.write(bytes(2**20))
                    raise
                file.flush()
                os.fsync(file.fileno())
            try:
                torch.load(part, map_location="cpu", weights_only=True, mmap=True)
            except Exception as error:
                raise ValueError(
                    "a checkpoint can contain only tensors, numbers, strings, lists and dicts of "
                    f"them, since loading a file must not run code: {error}"
                ) from error
            path = part.replace(self.directory / f"step-{step:09}.{sha256_of(part)[:_DIGITS]}.pt")
        finally:
            part.unlink(missing_ok=True)  # a failed write's: it may have filled the disk
        # A new name is durable only after an fsync of its directory: fsync(2).
        descriptor = os.open(self.directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        # Files from later steps were written before training resumed at an earlier step.
        older = [each for each in self.files() if each.name < f"step-{step:09}"]
        for each in {*self.files()} - {path, *older[max(0, len(older) - self.keep + 1) :]}:
            each.unlink(missing_ok=True)
        size, seconds = path.stat().st_size, round(time.monotonic() - begun, 3)
        self.events.emit("checkpoint", step=step, path=str(path), bytes=size, seconds=seconds)
        return path

    def newest(self) -> dict[str, Any] | None:
        """Return the newest valid state, or None if there are no checkpoints.

        Raises `ValueError` if there are checkpoints, but none is valid.
        """
        import torch  # noqa: PLC0415 - as above

        files = self.files()
        for path in reversed(files):
            if path.name.split(".")[1] == sha256_of(path)[:_DIGITS]:
                state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
                return state
            self.events.warning(f"{path} was changed or truncated; using the previous checkpoint")
        if files:
            raise ValueError(
                f"all checkpoints in {self.directory} were changed or truncated: remove them "
                "to start from the beginning"
            )
        return None

    def resumed(self, step: int) -> None:
        """Report that training resumes after `step` steps, and count the interval from there."""
        self._asked = step, step
        self.events.emit("resumed", step=step)

    def due(self, step: int) -> bool:
        if not self.counts_steps:
            return time.monotonic() >= self.written + self.every
        if step != self._asked[1]:
            self._asked = self._asked[1], step
        # Not only at multiples of `every`: a program may ask once per epoch.
        return step // self.every > self._asked[0] // self.every

    def write_if_due(self, state: Callable[[], Mapping[str, Any]], step: int) -> None:
        """Write the state that `state()` returns, if a checkpoint is due and none is being written.

        `step` is the number of steps that the state results from.
        """
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and self.due(step):
            self.written = time.monotonic()
            self.write_beside(state(), step)

    def write_beside(self, state: Mapping[str, Any], step: int) -> None:
        """Copy the state after `step` steps, and write the copy in a background thread."""
        self.settle()
        taken = _copied(state)
        # Not a daemon thread, so that the program waits for it before exiting.
        self._thread = threading.Thread(target=self._save, args=(taken, step), name="checkpoint")
        self._thread.start()

    def settle(self) -> None:
        """Wait until the checkpoint that is being written, if any, is on disk."""
        if self._thread is not None:
            self._thread.join()

    def _save(self, state: Mapping[str, Any], step: int) -> None:
        try:
            self.write(state, step)
        except (OSError, ValueError) as error:
            # Training must not fail because of a checkpoint.
            self.events.warning(f"the checkpoint after step {step} was not written: {error}")


def agreed(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return rank 0's state on all ranks of a process group, if another's is from another step.

    A pod's copy of a store may lack the newest checkpoint, or have one that is gone from the store.
    """
    dist: Any = sys.modules.get("torch.distributed")
    if not getattr(dist, "is_initialized", bool)():
        return state
    import torch  # noqa: PLC0415 - as above

    device = torch.device("cpu")
    if dist.get_backend() == "nccl":
        # A program may choose its device only later, but two ranks can't use the same one.
        number = torch.cuda.current_device() or int(os.environ.get("LOCAL_RANK", "0"))
        device = torch.device("cuda", number % torch.cuda.device_count())
    step = -1 if state is None else state["step"]
    ends = torch.tensor([step, -step], device=device)
    dist.all_reduce(ends, dist.ReduceOp.MAX)
    shared = [state]
    if ends.sum() != 0:
        dist.broadcast_object_list(shared, device=device)
    return shared[0]


def _copied(value: Any) -> Any:
    """Return a copy of `value` that later steps don't change, with its tensors on the CPU."""
    if hasattr(value, "detach"):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value


def sha256_of(path: Path) -> str:
    """Return a file's sha256 in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
