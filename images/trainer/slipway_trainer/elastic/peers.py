"""This worker's own board and store, and looking at those of the others."""

import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from torch.distributed import TCPStore

from slipway_trainer.elastic import bulletin
from slipway_trainer.elastic.board import Board, Member, Snapshot
from slipway_trainer.elastic.limits import together
from slipway_trainer.elastic.settings import Address, Settings

LOOK_SECONDS = 2.5
"""How long looking at all others may take, side by side."""
STORE_SECONDS = 5.0
"""How long a worker may take to write what another waits for in a store."""


@dataclass(frozen=True)
class Sight:
    """A worker that answers.

    Attributes:
        content: What stands on its board.
        store: Where its store listens.
        ask: Asks its board once more: `Board.ask`, with this worker as the reader.
    """

    content: Snapshot
    store: Address
    ask: Callable[..., Snapshot]


class Peers:
    """The workers of a job, this one among them.

    Raises:
        RuntimeError: this worker's port is taken.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.me = Member(settings.index, uuid.uuid4().hex[:12])
        host, port = settings.peers[settings.index]
        # Worlds can form here from now on; the object must live as long as that.
        self._store = connect(("127.0.0.1", 0), is_master=True)
        self.board = Board(Snapshot(self.me, self._store.port))
        try:
            bulletin.serve(self.board, port)
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
    ask = partial(bulletin.ask, (host, address[1]), reader)
    content = ask()
    return Sight(content, (host, content.store_port), ask)
