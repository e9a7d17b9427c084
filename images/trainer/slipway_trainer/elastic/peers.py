"""This worker's own store, and looking at those of the others."""

import socket
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from torch.distributed import DistError, TCPStore

from slipway_trainer.elastic.board import Board, Member, Record
from slipway_trainer.elastic.limits import together
from slipway_trainer.elastic.settings import Address, Settings

CONNECT_SECONDS = 1.0
STORE_SECONDS = 5.0
LOOK_SECONDS = 3.0


@dataclass(frozen=True)
class Sight:
    """A worker that answers: who it is and which world it was in last."""

    member: Member
    board: Board
    record: Record | None


class Peers:
    """The workers of a job, this one among them.

    Raises:
        RuntimeError: this worker's port is taken.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.me = Member(settings.index, uuid.uuid4().hex[:12])
        host, port = settings.peers[settings.index]
        try:
            # Debian's torch lacks libuv, the default backend of the server.
            store = TCPStore(
                "127.0.0.1",
                port,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=STORE_SECONDS),
                use_libuv=False,
            )
        except (DistError, RuntimeError) as error:
            raise RuntimeError(
                f"worker {settings.index} cannot listen on port {port} (as {host}): {error}"
            ) from error
        self.board = Board(store)
        self.board.introduce(self.me)

    def look(self) -> dict[int, Sight]:
        """Return the workers that answer within LOOK_SECONDS, by index; this one always does."""
        others = {
            index: partial(_sight, address)
            for index, address in enumerate(self.settings.peers)
            if index != self.me.index
        }
        seen = together(LOOK_SECONDS, others)
        own = Sight(self.me, self.board, self.board.record())
        return {self.me.index: own} | {
            index: sight for index, sight in seen.items() if sight.member.index == index
        }


def _sight(address: Address) -> Sight:
    host = str(socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4][0])
    # Where nobody listens, the store's client tries again until its time is up; this fails at once.
    socket.create_connection((host, address[1]), timeout=CONNECT_SECONDS).close()
    store = TCPStore(
        host,
        address[1],
        is_master=False,
        wait_for_workers=False,
        timeout=timedelta(seconds=STORE_SECONDS),
        use_libuv=False,
    )
    board = Board(store)
    return Sight(board.owner(), board, board.record())
