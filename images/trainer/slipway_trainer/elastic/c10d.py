"""One round of torch's c10d rendezvous, on the store of a worker that hosts it."""

import os
from contextlib import suppress
from datetime import timedelta
from functools import partial

from torch.distributed import Store
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from slipway_trainer.elastic.board import Member, Opening
from slipway_trainer.elastic.limits import within
from slipway_trainer.elastic.peers import LOOK_SECONDS, connect
from slipway_trainer.elastic.settings import Address, Settings

LAST_CALL_SECONDS = LOOK_SECONDS + 1.5
"""How long the guests who are there wait for those who are not: they may still look around."""
JOIN_SECONDS = 10.0
"""How long a round may take in all."""

# torch would have rank 0 serve a store of its own, with the libuv that Debian's torch lacks.
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"


def meet(
    settings: Settings, me: Member, host: Address, opening: Opening, least: int
) -> tuple[int, list[Member], Store]:
    """Return this worker's rank, the members in rank order, and the store of the new world.

    Raises:
        RendezvousError, DistError: the host was lost, or the round was closed.
        TimeoutError: too few guests came, or the host stands still.
    """
    run_id = f"{settings.job}.{opening.generation}"
    handler = within(
        JOIN_SECONDS,
        f"reaching the host of {run_id}",
        partial(_handler, me, host, opening, run_id, least),
    )
    try:
        info = within(JOIN_SECONDS + 2, f"the rendezvous {run_id}", handler.next_rendezvous)
        members = within(
            LAST_CALL_SECONDS + 2,
            f"the introduction of {run_id}",
            partial(_introduce, me, info.store, info.rank, info.world_size),
        )
    finally:
        # It stops the heart-beats, which nobody needs any more: collective operations notice a
        # loss sooner. And it closes the round, for guests that come too late or wait in vain.
        with suppress(TimeoutError):
            within(2, f"closing {run_id}", handler.shutdown)
    return info.rank, members, info.store


def _handler(
    me: Member, host: Address, opening: Opening, run_id: str, least: int
) -> DynamicRendezvousHandler:
    store = connect(host)
    backend = C10dRendezvousBackend(store, run_id)
    return DynamicRendezvousHandler.from_backend(
        run_id,
        store,
        backend,
        min_nodes=min(least, len(opening.guests)),
        max_nodes=len(opening.guests),
        # Ranks follow the order of these names.
        local_addr=f"{me.index:06}",
        timeout=RendezvousTimeout(
            join=timedelta(seconds=JOIN_SECONDS),
            last_call=timedelta(seconds=LAST_CALL_SECONDS),
            close=timedelta(seconds=2),
            heartbeat=timedelta(seconds=2),
        ),
    )


def _introduce(me: Member, store: Store, rank: int, size: int) -> list[Member]:
    """Tell the others who this rank is, and return who they are."""
    store.set(f"member {rank}", f"{me.index} {me.incarnation}")
    members = []
    for other in range(size):
        index, incarnation = store.get(f"member {other}").decode().split()
        members.append(Member(int(index), incarnation))
    return members
