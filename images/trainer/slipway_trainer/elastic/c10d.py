"""One round of torch's c10d rendezvous, on the store of a worker that hosts it."""

import os
from datetime import timedelta

from torch.distributed import Store
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from slipway_trainer.elastic.board import Member, Opening, Record
from slipway_trainer.elastic.limits import within
from slipway_trainer.elastic.peers import LOOK_SECONDS, STORE_SECONDS, connect
from slipway_trainer.elastic.settings import Address

LAST_CALL_SECONDS = LOOK_SECONDS + 1.5
"""How long the guests who are there wait for those who are not: they may still look around."""
JOIN_SECONDS = 10.0
"""How long they may take to come."""
_ROUND_SECONDS = STORE_SECONDS + JOIN_SECONDS + 5.0

# torch would have rank 0 serve a store of its own, with the libuv that Debian's torch lacks.
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"


def meet(job: str, me: Member, host: Address, opening: Opening, least: int) -> tuple[Record, Store]:
    """Return the world that forms, and where its members find each other.

    Raises:
        RendezvousError, DistError: the host was lost, or the round was closed.
        TimeoutError: too few guests came, or the host stands still.
    """
    run_id = f"{job}.{opening.generation}"

    def meeting() -> tuple[Record, Store]:
        store = connect(host)
        handler = DynamicRendezvousHandler.from_backend(
            run_id,
            store,
            C10dRendezvousBackend(store, run_id),
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
        try:
            info = handler.next_rendezvous()
            members = _introduce(me, info.store, info.rank, info.world_size)
        finally:
            # It stops the heart-beats, which nobody needs any more: collective operations notice a
            # loss sooner. And it closes the round, for guests that come too late or wait in vain.
            handler.shutdown()
        return Record(opening.generation, members), info.store

    return within(_ROUND_SECONDS, f"the rendezvous {run_id}", meeting)


def _introduce(me: Member, store: Store, rank: int, size: int) -> tuple[Member, ...]:
    """Tell the others who this rank is, and return who they are."""
    store.set(f"member {rank}", f"{me.index} {me.incarnation}")
    members = []
    for other in range(size):
        index, incarnation = store.get(f"member {other}").decode().split()
        members.append(Member(int(index), incarnation))
    return tuple(members)
