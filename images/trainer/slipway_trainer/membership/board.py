"""The boards on which workers publish their state, and through which the next world opens.

Each worker's board shows its name and its last world. Workers that want to join the next world
repeatedly send a request, a `Knock`, to the board of the host, the worker through which that world
forms. Once requests from all workers that a member of the last world expects have arrived, the
board opens the next world, with all workers that sent one.

A request is one line of JSON over TCP, and so is its response; both have a time limit. torch's
TCPStore client may wait forever for a hanging process, and can't be created in several threads at
the same time.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, replace
from functools import partial
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from typing import Any, TypeVar

from slipway_trainer.membership.settings import Address

Result = TypeVar("Result")

ANSWER_SECONDS = 2.0
"""Time limit for a worker's response, which a separate thread sends."""
KNOCK_SECONDS = 5.0
"""The time for which a `Knock` is valid: enough to query all other workers before the next."""


def index_of(member: str) -> int:
    """Return a worker's index from its name, which consists of six digits, `-` and a random ID."""
    return int(member.partition("-")[0])


@dataclass(frozen=True)
class Record:
    """A world: workers that train together, in rank order."""

    generation: int
    """Increases with each of a job's worlds."""
    members: tuple[str, ...]
    outcome: dict[str, Any] | None = None
    """The job's outcome, once the job is complete."""

    @property
    def claim(self) -> tuple[int, int, int]:
        """A world's precedence: newer generation, then more members, then lower first index."""
        return self.generation, len(self.members), -index_of(self.members[0])


@dataclass(frozen=True)
class Snapshot:
    """The content of a worker's board."""

    owner: str
    store_port: int
    """The port of the owner's store, where the members of its worlds meet."""
    record: Record | None = None
    """The owner's last world."""
    opening: Record | None = None
    """The world that opened here last, which may not have formed yet."""


@dataclass(frozen=True)
class Knock:
    """A request to join the next world."""

    newest: int
    """The newest generation that this worker knows or has tried; 0 if there is none."""
    least: int
    """The minimum number of members in the next world."""
    expected: tuple[int, ...] | None
    """Indices of workers that must ask to join before the world opens; None if others decide."""


class Board:
    """A worker's own board; other workers reach it with `query`."""

    def __init__(self, owner: str, store_port: int) -> None:
        self.content = Snapshot(owner, store_port)
        self.informed: set[int] = set()
        """Indices of the workers that have read the job's outcome."""
        self._knocks: dict[int, tuple[float, str, Knock]] = {}
        self._lock = Lock()

    def respond(self, reader: str, knock: Knock | None = None) -> Snapshot:
        """Process the worker `reader`'s request to join, if any; return the board's content."""
        index = index_of(reader)
        with self._lock:
            record, opening = self.content.record, self.content.opening
            if record is not None and record.outcome is not None:
                self.informed.add(index)
            if knock is not None:
                last = 0 if opening is None else opening.generation
                # A worker that does not yet know that it is a member does not ask for a new world.
                if opening is None or last <= knock.newest or reader not in opening.members:
                    self._knocks[index] = time.monotonic(), reader, knock
                    self._open(knock, last)
            return self.content

    def publish(self, record: Record) -> None:
        """Publish the owner's world."""
        with self._lock:
            self.content = replace(self.content, record=record)

    def waiting(self) -> list[str]:
        """Return the workers that have recently asked to join, after the last world opened here."""
        with self._lock:
            return [member for member, _ in self._fresh()]

    def _fresh(self) -> list[tuple[str, Knock]]:
        since = time.monotonic() - KNOCK_SECONDS
        return [(member, knock) for at, member, knock in self._knocks.values() if at > since]

    def _open(self, knock: Knock, last: int) -> None:
        fresh = self._fresh()
        here = {index_of(member) for member, _ in fresh}
        if knock.expected is None or len(here) < knock.least or not here.issuperset(knock.expected):
            return
        generation = max(last, *(each.newest for _, each in fresh)) + 1
        members = tuple(sorted(member for member, _ in fresh))
        self.content = replace(self.content, opening=Record(generation, members))
        self._knocks.clear()


def query(address: Address, reader: str, knock: Knock | None = None) -> Snapshot:
    """Return the result of `Board.respond` on the worker at `address`; may raise `OSError`."""
    question = json.dumps({"reader": reader, "knock": knock and asdict(knock)})
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        connection.sendall(f"{question}\n".encode())
        with connection.makefile() as answer:
            try:
                content = json.loads(answer.readline())
                worlds = {key: _record(content[key]) for key in ("record", "opening")}
                return Snapshot(content["owner"], content["store_port"], **worlds)
            except (KeyError, TypeError, ValueError) as error:
                raise OSError(f"{address[0]}:{address[1]} is not a worker: {error}") from error


def serve(board: Board, port: int) -> None:
    """Serve `board` on `port`, on all interfaces, until the process exits."""
    server = _Server(("", port), partial(_Handler, board))
    Thread(target=server.serve_forever, name="board", daemon=True).start()


class _Server(ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppress the traceback; the client gets no response, or has already disconnected."""


class _Handler(StreamRequestHandler):
    timeout = ANSWER_SECONDS

    def __init__(self, board: Board, *connection: Any) -> None:
        self._board = board
        super().__init__(*connection)

    def handle(self) -> None:
        # A request that expects a thousand workers is a tenth of that size.
        question = json.loads(self.rfile.readline(64 * 1024))
        knock = question["knock"] and Knock(**question["knock"])
        answer = json.dumps(asdict(self._board.respond(question["reader"], knock)))
        self.wfile.write(f"{answer}\n".encode())


def _record(packed: dict[str, Any] | None) -> Record | None:
    return None if packed is None else Record(**{**packed, "members": tuple(packed["members"])})


def within(seconds: float, what: str, work: Callable[[], Result]) -> Result:
    """Run `work` in a thread and return its value; raises `TimeoutError` after `seconds`."""
    future = begin(work)
    if not wait([future], seconds).done:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")
    return future.result()


def together(seconds: float, works: Mapping[int, Callable[[], Result]]) -> dict[int, Result]:
    """Run all of `works` in parallel; return those results that arrive within `seconds`, by key."""
    begun = {key: begin(work) for key, work in works.items()}
    done = wait(begun.values(), seconds).done
    return {
        key: future.result()
        for key, future in begun.items()
        if future in done and future.exception() is None
    }


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Run `work` in a daemon thread, which, unlike a pool's, does not delay the process's exit."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
