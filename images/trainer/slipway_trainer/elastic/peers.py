"""This worker's own board and store, and looking at those of the others."""

import socket
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from torch.distributed import TCPStore

from slipway_trainer.elastic.board import Board, Member, Snapshot
from slipway_trainer.elastic.bulletin import RemoteBoard, serve
from slipway_trainer.elastic.limits import together
from slipway_trainer.elastic.settings import Address, Settings

LOOK_SECONDS = 2.5
"""How long looking at all others may take, side by side."""
STORE_SECONDS = 5.0
"""How long a worker may take to write what another waits for in a store."""


@dataclass(frozen=True)
class Sight:
    """A worker that answers: what stands on its board, and where that is."""

    content: Snapshot
    board: RemoteBoard

    @property
    def member(self) -> Member:
        """Who it is."""
        return self.content.owner

    @property
    def store(self) -> Address:
        """Where its store listens."""
        return self.board.address[0], self.content.store_port


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
            serve(self.board, port)
        except OSError as error:
            raise RuntimeError(
                f"worker {settings.index} cannot listen on port {port}, where others look for it "
                f"as {host}: {error}"
            ) from error

    def look(self) -> dict[int, Sight]:
        """Return the workers that answer within LOOK_SECONDS, by index; this one always does."""
        others = {
            index: partial(_sight, address, self.me.index)
            for index, address in enumerate(self.settings.peers)
            if index != self.me.index
        }
        seen = together(LOOK_SECONDS, others)
        _, port = self.settings.peers[self.me.index]
        own = Sight(self.board.content, RemoteBoard(("127.0.0.1", port), self.me.index))
        return {self.me.index: own} | {
            index: sight for index, sight in seen.items() if sight.member.index == index
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
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    board = RemoteBoard((str(found[0][4][0]), address[1]), reader)
    return Sight(board.read(), board)
