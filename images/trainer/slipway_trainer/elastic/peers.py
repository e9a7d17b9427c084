"""This worker's own board and store, those of the others, and how a world forms through one.

A world forms in one round of torch's c10d rendezvous, on the store of the worker that hosts it.
"""

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from torch.distributed import Store, TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from slipway_trainer.elastic import board
from slipway_trainer.elastic.board import Board, Member, Opening, Record, Snapshot
from slipway_trainer.elastic.limits import together, within
from slipway_trainer.elastic.settings import Address, Settings

LOOK_SECONDS = 2.5
"""How long looking at all others may take, side by side."""
STORE_SECONDS = 5.0
"""How long a worker may take to write what another waits for in a store."""
LAST_CALL_SECONDS = LOOK_SECONDS + 1.5
"""How long the guests who are there wait for those who are not: they may still look around."""
JOIN_SECONDS = 10.0
"""How long they may take to come."""
_ROUND_SECONDS = STORE_SECONDS + JOIN_SECONDS + 5.0

# torch would have rank 0 serve a store of its own, with the libuv that Debian's torch lacks.
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"


@dataclass(frozen=True)
class Sight:
    """A worker that answers."""

    content: Snapshot
    """What stands on its board."""
    store: Address
    """Where its store listens."""
    ask: Callable[..., Snapshot]
    """Asks its board once more: `Board.ask`, with this worker as the reader."""


class Peers:
    """The workers of a job, this one among them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.me = Member(settings.index, uuid.uuid4().hex[:12])
        host, port = settings.peers[settings.index]
        # Worlds can form here from now on; the object must live as long as that.
        self._store = connect(("127.0.0.1", 0), is_master=True)
        self.board = Board(Snapshot(self.me, self._store.port))
        try:
            board.serve(self.board, port)
        except OSError as error:
            raise RuntimeError(
                f"worker {settings.index} cannot listen on port {port}, where others look for it "
                f"as {host}: {error}"
            ) from error

    def look(self) -> dict[Member, Sight]:
        """Return the workers that answer within LOOK_SECONDS; this one always does."""
        mine = self.me.index
        others = {
            index: partial(_sight, address, mine)
            for index, address in enumerate(self.settings.peers)
            if index != mine
        }
        seen = together(LOOK_SECONDS, others)
        store = "127.0.0.1", self._store.port
        own = Sight(self.board.content, store, partial(self.board.ask, mine))
        return {self.me: own} | {
            sight.content.owner: sight
            for index, sight in seen.items()
            if sight.content.owner.index == index
        }


def connect(address: Address, *, is_master: bool = False) -> TCPStore:
    """Return a client of the store at `address`, or a store of this process."""
    return TCPStore(
        *address,
        is_master=is_master,
        wait_for_workers=False,
        timeout=timedelta(seconds=STORE_SECONDS),
        # The other server, the default, is not in Debian's torch.
        use_libuv=False,
    )


def _sight(address: Address, reader: int) -> Sight:
    # One look at DNS for all that is asked of it.
    host = str(socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4][0])
    ask = partial(board.ask, (host, address[1]), reader)
    content = ask()
    return Sight(content, (host, content.store_port), ask)


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
    told = (store.get(f"member {other}").decode().split() for other in range(size))
    return tuple(Member(int(index), incarnation) for index, incarnation in told)
