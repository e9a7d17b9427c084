"""The process group of one generation, and what its members do together.

They gather what each knows, hand over the state, and average gradients. When a worker is lost they
leave the group behind.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from slipway_trainer.elastic.limits import begin, within

Result = TypeVar("Result")
PIECE_BYTES = 16 * 2**20
_POLL_SECONDS = 0.05
_EXTRAS = 3
"""Numbers that travel with the gradients."""


class WorldChanged(Exception):
    """A collective operation failed, so a worker was lost, or does not answer in time."""


def enter(store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
    """Make the process group of a world that came out of the rendezvous; or `WorldChanged`."""
    hook = sys.excepthook

    def init() -> None:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
        # torch puts the rank before each line of a traceback, once more with each new world.
        sys.excepthook = hook

    collective(lambda: within(timeout.total_seconds() + 5, "making the process group", init))


def collective(operation: Callable[[], Result]) -> Result:
    """Return what a collective operation returns; raise `WorldChanged` when it failed.

    Gloo raises a plain RuntimeError then, so nothing but the operation itself may be in it.
    """
    try:
        return operation()
    except (RuntimeError, TimeoutError) as error:
        reason = str(error)
    # Not inside the handler: the failed operation's frames would live as long as this exception,
    # and with them the process group, whose connections the other workers wait to see closed.
    raise WorldChanged(reason)


def gather(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what every rank gave, in rank order; it is what JSON can hold."""
    text, given = json.dumps(mine).encode(), []
    for source in range(dist.get_world_size()):
        packed = torch.empty(_announced(len(text), source), dtype=torch.uint8)
        if source == dist.get_rank():
            packed = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(packed, source)
        given.append(json.loads(packed.numpy().tobytes()))
    return given


def hand_over(
    state: dict[str, Any] | None, source: int, lacking: Sequence[int], device: torch.device
) -> dict[str, Any] | None:
    """Give the state of the rank `source` to those that lack it, and return it there.

    It goes in pieces, of which all ranks hear, and is loaded beside that. So no rank waits longer
    for another than for a piece, however large the state is. It is tensors and plain values:
    nothing else is unpickled. Other ranks than `source` give None for the state.
    """
    rank = dist.get_rank()
    if rank == source:
        pieces = _Pieces(source, lacking)
        # As it is packed: there is never a second copy of the whole.
        torch.save(state, pieces)
        pieces.end()
    else:
        packed = io.BytesIO()
        while length := _announced(0, source):
            if rank in lacking:
                piece = torch.empty(length, dtype=torch.uint8)
                dist.recv(piece, source)
                packed.write(piece.numpy().data)
    if rank not in lacking:
        _all_loaded(lambda: True)
        return None
    packed.seek(0)
    loaded = begin(lambda: torch.load(packed, map_location=device, weights_only=True))
    _all_loaded(loaded.done)
    received: dict[str, Any] = loaded.result()
    return received


class _Pieces(io.RawIOBase):
    """What is written here goes to the ranks that lack it, a piece at a time.

    What goes wrong is raised at the end: in between torch.save would call it an error of a file.
    """

    def __init__(self, source: int, lacking: Sequence[int]) -> None:
        super().__init__()
        self._source, self._lacking, self._waiting = source, lacking, bytearray()
        self._error: str | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            self._waiting += view[start : start + PIECE_BYTES]
            if len(self._waiting) >= PIECE_BYTES:
                self._send()
        return len(view)

    def end(self) -> None:
        """Send what is left, and say that this was all; raise what went wrong before."""
        if self._waiting:
            self._send()
        if self._error is not None:
            raise RuntimeError(self._error)
        _announced(0, self._source)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        if self._error is not None:
            return
        try:
            _announced(len(waiting), self._source)
            piece = torch.frombuffer(waiting, dtype=torch.uint8)
            for rank in self._lacking:
                dist.send(piece, rank)
        except RuntimeError as error:
            self._error = str(error)


def _announced(length: int, source: int) -> int:
    """Return how long the next piece is, as `source` tells all ranks; 0 for no more."""
    told = torch.tensor([length])
    dist.broadcast(told, source)
    return int(told)


def _all_loaded(is_done: Callable[[], bool]) -> None:
    """Wait until this and all other ranks are done, and tell each other meanwhile."""
    while True:
        busy = torch.tensor([not is_done()], dtype=torch.int64)
        dist.all_reduce(busy)
        if not int(busy):
            return
        time.sleep(_POLL_SECONDS)


@dataclass(frozen=True)
class Reduced:
    """What travelled with the gradients, summed over all workers."""

    samples: int
    flags: int
    """How many workers raised their flag."""
    value: float
    """What they added."""


class Bucket:
    """One flat tensor that holds the gradients of all float32 parameters, and three numbers."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = [each for each in parameters if each.requires_grad]
        others = {str(each.dtype) for each in self.parameters} - {"torch.float32"}
        if others:
            raise ValueError(f"elastic training takes float32 parameters, not {sorted(others)}")
        sizes = [each.numel() for each in self.parameters]
        device = self.parameters[0].device if self.parameters else None
        self._flat = torch.zeros(sum(sizes) + _EXTRAS, device=device)
        parts = self._flat.split([*sizes, _EXTRAS])
        self._views = [
            part.view_as(each) for part, each in zip(parts, self.parameters, strict=False)
        ]
        self._extras = parts[-1]

    def average(self, samples: int, flag: bool, value: float) -> Reduced:
        """Replace each parameter's gradient with the mean over the samples of all workers.

        A worker's gradients are those of its mean loss, so they count by its share of the step's
        samples; without any, whatever gradients it has do not count. What was averaged before, in
        an earlier backward pass of the same step, is the same on all workers and stays what it is.
        `WorldChanged` is raised when a worker was lost.
        """
        if samples == 0:
            self._flat.zero_()
        else:
            for view, parameter in zip(self._views, self.parameters, strict=True):
                if parameter.grad is None:
                    view.zero_()
                else:
                    torch.mul(parameter.grad, samples, out=view)
        self._extras.copy_(torch.tensor([samples, flag, value if samples else 0.0]))
        collective(lambda: dist.all_reduce(self._flat))
        all_samples, flags, all_values = self._extras.tolist()
        for view, parameter in zip(self._views, self.parameters, strict=True):
            parameter.grad = view.div_(all_samples)
        return Reduced(round(all_samples), round(flags), all_values)

    def withdraw(self) -> None:
        """Take all gradients away: those of a step that failed must not add to the next."""
        for parameter in self.parameters:
            parameter.grad = None


def leave() -> None:
    """Leave the process group; its connections close, so members that wait for this one notice."""
    if not dist.is_initialized():
        return
    # Dropping the last reference to a ProcessGroup joins Gloo's threads while it holds Python's
    # lock, which they may wait for to give up a tensor: a deadlock. The backend's own object lets
    # go of the lock first, so it is what has to go last.
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # noqa: SLF001
    dist.destroy_process_group()
    del backend
