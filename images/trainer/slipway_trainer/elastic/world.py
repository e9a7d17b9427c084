"""The process group of one generation: its members meet, hand over the state, average gradients."""

import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from slipway_trainer.membership.board import Record, begin, within
from slipway_trainer.membership.settings import Address

Result = TypeVar("Result")
PIECE_BYTES = 16 * 2**20
STORE_SECONDS = 5.0
"""How long a worker may take to come to the store where the members of its world meet."""
_EXTRAS = 2
"""Numbers that travel with the gradients: of how many samples they are, and a flag."""


class WorldChanged(Exception):
    """A collective operation failed, so a worker was lost, or does not answer in time."""


def store(address: Address, *, is_master: bool = False) -> dist.TCPStore:
    """Return a client of the store at `address`, or a store of this process, on any port."""
    return dist.TCPStore(
        *address,
        is_master=is_master,
        wait_for_workers=False,
        timeout=timedelta(seconds=STORE_SECONDS),
        # The other server, the default, is not in Debian's torch.
        use_libuv=False,
    )


def enter(record: Record, rank: int, address: Address, timeout: timedelta) -> None:
    """Meet all members of a world at a store, and make their process group; or `WorldChanged`."""
    hook = sys.excepthook

    def meet() -> None:
        place = dist.PrefixStore(str(record.generation), store(address))
        place.set(record.members[rank], "")
        place.wait([*record.members], timedelta(seconds=STORE_SECONDS))
        size = len(record.members)
        dist.init_process_group("gloo", store=place, rank=rank, world_size=size, timeout=timeout)
        # torch puts the rank before each line of a traceback, once more with each new world.
        sys.excepthook = hook

    limit = timeout.total_seconds() + 3 * STORE_SECONDS
    collective(lambda: within(limit, f"making world {record.generation}", meet))


def collective(operation: Callable[[], Result]) -> Result:
    """Return what a collective operation returns; raise `WorldChanged` when it failed."""
    try:
        return operation()
    except (RuntimeError, TimeoutError) as error:  # as Gloo does: nothing else may be in it
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


def follow_furthest(
    mine: dict[str, Any], state: Callable[[], dict[str, Any]], device: torch.device
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any] | None]:
    """Gather what every rank knows, and give the state of the furthest to those that lack it.

    Returns what all gave, what the furthest gave, by its `progress`, and its state on a rank that
    lacks it. `state` returns this rank's own. `WorldChanged` is raised when a worker was lost.
    """
    given = collective(lambda: gather(mine))
    furthest = max(given, key=lambda each: each["progress"])
    source = given.index(furthest)
    # Version 0 is what each worker began with, which may differ.
    lacking = [
        other
        for other, each in enumerate(given)
        if each["progress"] != furthest["progress"]
        or (other != source and each["progress"][-1] == 0)
    ]
    if not lacking:
        return given, furthest, None
    own = state() if source == dist.get_rank() else None
    return given, furthest, collective(lambda: hand_over(own, source, lacking, device))


def hand_over(
    state: dict[str, Any] | None, source: int, lacking: Sequence[int], device: torch.device
) -> dict[str, Any] | None:
    """Give the state of the rank `source` to those that lack it, and return it there.

    It goes in pieces, so no rank waits longer for another than for a piece, however large the state
    is. It is tensors and plain values: nothing else is unpickled. Others than `source` give None.
    """
    rank = dist.get_rank()
    if rank == source:
        pieces = _Pieces(source, lacking)
        # As it is packed: there is never a second copy of the whole.
        with io.BufferedWriter(pieces, PIECE_BYTES) as buffered:
            torch.save(state, buffered)
        if pieces.error is not None:
            raise pieces.error
        _announced(0, source)
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
    """What is written here goes to the ranks that lack it, as a piece of its own."""

    def __init__(self, source: int, lacking: Sequence[int]) -> None:
        super().__init__()
        self._source, self._lacking = source, lacking
        self.error: RuntimeError | None = None
        """What went wrong. torch.save would call it an error of a file if it was raised here."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = torch.frombuffer(bytearray(data[:PIECE_BYTES]), dtype=torch.uint8)
        try:
            if self.error is None:
                _announced(len(piece), self._source)
                for rank in self._lacking:
                    dist.send(piece, rank)
        except RuntimeError as error:
            self.error = error
        return len(piece)


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
        time.sleep(0.05)


class Bucket:
    """One flat tensor that holds the gradients of all float32 parameters, and two numbers."""

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

    def average(self, samples: int, flag: bool) -> tuple[int, bool]:
        """Replace each parameter's gradient with the mean over the samples of all workers.

        A worker's gradients are those of its mean loss, so they count by its samples. What an
        earlier backward pass of the step averaged is the same on all workers and stays what it is.
        Returns how many samples there are, and whether any worker raised its flag.
        """
        if samples == 0:
            self._flat.zero_()
        else:
            for view, parameter in zip(self._views, self.parameters, strict=True):
                if parameter.grad is None:
                    view.zero_()
                else:
                    torch.mul(parameter.grad, samples, out=view)
        self._extras.copy_(torch.tensor([samples, flag]))
        collective(lambda: dist.all_reduce(self._flat))
        all_samples, flags = self._extras.tolist()
        for view, parameter in zip(self._views, self.parameters, strict=True):
            parameter.grad = view.div_(all_samples)
        return round(all_samples), flags > 0

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
