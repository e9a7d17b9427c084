"""The process group of one generation: made, asked, and left behind when a worker is lost."""

import io
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from slipway_trainer.elastic.limits import within
from slipway_trainer.elastic.rendezvous import Formed

Result = TypeVar("Result")


class WorldChanged(Exception):
    """A collective operation failed, so a worker was lost, or does not answer in time."""


def enter(formed: Formed, timeout: timedelta) -> None:
    """Make the process group of a world that came out of the rendezvous.

    Raises:
        WorldChanged: one of its members was lost on the way.
    """
    hook = sys.excepthook

    def init() -> None:
        dist.init_process_group(
            "gloo",
            store=formed.store,
            rank=formed.rank,
            world_size=len(formed.record.members),
            timeout=timeout,
        )
        # torch puts the rank before each line of a traceback, once more with each new world.
        sys.excepthook = hook

    collective(lambda: within(timeout.total_seconds() + 5, "making the process group", init))


def collective(operation: Callable[[], Result]) -> Result:
    """Return what a collective operation returns.

    Raises:
        WorldChanged: it failed. Gloo raises a plain RuntimeError for that, so nothing but the
            operation itself may be in it.
    """
    try:
        return operation()
    except (RuntimeError, TimeoutError) as error:
        reason = str(error)
    # Not inside the handler: the failed operation's frames would live as long as this exception,
    # and with them the process group, whose connections the other workers wait to see closed.
    raise WorldChanged(reason)


def gather(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what every rank gave, in rank order: what JSON can hold, so nothing is unpickled."""
    text = torch.frombuffer(bytearray(json.dumps(mine).encode()), dtype=torch.uint8)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(text)]))
    longest = max(int(size) for size in sizes)
    texts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes]
    dist.all_gather(texts, torch.nn.functional.pad(text, (0, longest - len(text))))
    return [
        json.loads(text[: int(size)].numpy().tobytes())
        for text, size in zip(texts, sizes, strict=True)
    ]


def hand_over(state: dict[str, Any] | None, source: int, device: torch.device) -> dict[str, Any]:
    """Return the state that the rank `source` gave; the other ranks give None.

    Raises:
        RuntimeError: a worker was lost.
    """
    packed = torch.empty(0, dtype=torch.uint8)
    if state is not None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        packed = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    size = torch.tensor([len(packed)])
    dist.broadcast(size, source)
    if state is None:
        packed = torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(packed, source)
    if state is not None:
        return state
    received: dict[str, Any] = torch.load(
        io.BytesIO(packed.numpy().tobytes()), map_location=device, weights_only=True
    )
    return received


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
