"""The process group for one generation: join it, hand over state, and average gradients."""

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
"""Time limit for a worker to reach the store where the members of its world meet."""
_EXTRAS = 2
"""The number of values sent with the gradients: the sample count, and a flag."""


class WorldChanged(Exception):
    """A collective operation failed because a worker was lost, or did not respond in time."""


def store(address: Address, *, is_master: bool = False) -> dist.TCPStore:
    """Return a client for the store at `address` or, if `is_master`, a store in this process."""
    return dist.TCPStore(
        *address,
        is_master=is_master,
        wait_for_workers=False,
        timeout=timedelta(seconds=STORE_SECONDS),
        # The default libuv server is not in Debian's torch.
        use_libuv=False,
    )


def enter(record: Record, rank: int, address: Address, timeout: timedelta) -> None:
    """Rendezvous with a world's members, and create the process group; raises `WorldChanged`."""
    hook = sys.excepthook

    def meet() -> None:
        place = dist.PrefixStore(str(record.generation), store(address))
        place.set(record.members[rank], "")
        place.wait([*record.members], timedelta(seconds=STORE_SECONDS))
        size = len(record.members)
        dist.init_process_group("gloo", store=place, rank=rank, world_size=size, timeout=timeout)
        # torch's hook adds the rank to each line of a traceback, again for each new world.
        sys.excepthook = hook

    limit = timeout.total_seconds() + 3 * STORE_SECONDS
    collective(lambda: within(limit, f"creating world {record.generation}", meet))


def collective(operation: Callable[[], Result]) -> Result:
    """Return the value of a collective operation; raise `WorldChanged` if it fails."""
    try:
        return operation()
    except (RuntimeError, TimeoutError) as error:  # Gloo's; `operation` does nothing else
        reason = str(error)
    # Outside the handler: otherwise the exception would keep the operation's frames alive, and
    # with them the process group, whose closed connections the other workers wait for.
    raise WorldChanged(reason)


def gather(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Send `mine`, a JSON value, to all ranks; return all ranks' values, in rank order."""
    text, answers = json.dumps(mine).encode(), []
    for source in range(dist.get_world_size()):
        packed = torch.empty(_announced(len(text), source), dtype=torch.uint8)
        if source == dist.get_rank():
            packed = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(packed, source)
        answers.append(json.loads(packed.numpy().tobytes()))
    return answers


def follow_furthest(
    mine: dict[str, Any], state: Callable[[], dict[str, Any]], device: torch.device
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any] | None]:
    """Gather all ranks' progress, and send the most advanced rank's state to those that lack it.

    Returns all ranks' values, the value with the highest `progress` and, on ranks that lack that
    rank's state, this state. `state()` is this rank's own. Raises `WorldChanged` after a loss.
    """
    answers = collective(lambda: gather(mine))
    furthest = max(answers, key=lambda each: each["progress"])
    source = answers.index(furthest)
    # Version 0 is each worker's initial state, which may differ.
    lacking = [
        other
        for other, each in enumerate(answers)
        if each["progress"] != furthest["progress"]
        or (other != source and each["progress"][-1] == 0)
    ]
    if not lacking:
        return answers, furthest, None
    own = state() if source == dist.get_rank() else None
    return answers, furthest, collective(lambda: hand_over(own, source, lacking, device))


def hand_over(
    state: dict[str, Any] | None, source: int, lacking: Sequence[int], device: torch.device
) -> dict[str, Any] | None:
    """Send the state from rank `source` to the ranks that lack it, and return it there.

    A large state is sent in pieces, so that no rank waits for longer than one piece takes. It
    contains only tensors and plain values, which are safe to unpickle. Other ranks pass None.
    """
    rank = dist.get_rank()
    if rank == source:
        pieces = _Pieces(source, lacking)
        # Send it while packing, so that there is no second copy of the state.
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
    """A file that sends each write to the ranks that lack the state, as one piece."""

    def __init__(self, source: int, lacking: Sequence[int]) -> None:
        super().__init__()
        self._source, self._lacking = source, lacking
        self.error: RuntimeError | None = None
        """The first error; if it were raised here, torch.save would report a file error."""

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
    """Return the length of the next piece, broadcast from `source`; 0 marks the end."""
    announced = torch.tensor([length])
    dist.broadcast(announced, source)
    return int(announced)


def _all_loaded(is_done: Callable[[], bool]) -> None:
    """Wait until this and all other ranks are done, running collectives in the meantime."""
    while True:
        busy = torch.tensor([not is_done()], dtype=torch.int64)
        dist.all_reduce(busy)
        if not int(busy):
            return
        time.sleep(0.05)


class Bucket:
    """A flat tensor that holds the parameters' float32 gradients, a sample count and a flag."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = [each for each in parameters if each.requires_grad]
        others = {str(each.dtype) for each in self.parameters} - {"torch.float32"}
        if others:
            raise ValueError(f"elastic training requires float32 parameters, not {sorted(others)}")
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

        A worker's gradients come from its mean loss, so they are weighted by its sample count. The
        average from an earlier backward pass in the step is equal on all workers, and remains so.
        Returns the number of samples, and whether any worker set its flag.
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
        """Remove all gradients, so that a failed step's gradients are not added to the next."""
        for parameter in self.parameters:
            parameter.grad = None


def leave() -> None:
    """Leave the process group, and close its connections so that waiting members notice."""
    if not dist.is_initialized():
        return
    # Dropping the last reference to a ProcessGroup joins Gloo's threads while holding the GIL,
    # which they may need to release a tensor: a deadlock. The backend's own object releases the GIL
    # first, so it must be dropped last.
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # noqa: SLF001
    dist.destroy_process_group()
    del backend
