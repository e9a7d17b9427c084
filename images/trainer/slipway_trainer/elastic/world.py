"""The process group of one generation: made, asked, and left behind when a worker is lost."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

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

    def init() -> None:
        dist.init_process_group(
            "gloo",
            store=formed.store,
            rank=formed.rank,
            world_size=len(formed.record.members),
            timeout=timeout,
        )

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
        raise WorldChanged(str(error)) from error


def gather(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what every rank gave, in rank order."""
    given: list[dict[str, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(given, mine)
    return given


def leave() -> None:
    """Leave the process group; its connections close, so members that wait for this one notice."""
    if dist.is_initialized():
        dist.destroy_process_group()
