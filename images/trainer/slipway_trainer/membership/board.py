"""What each worker shows all others, and how the members of the next world are found.

On each worker's board stands who it is and which world it was in last. Where the worker is the
host, the one through which the next world forms, whoever is to be in that world knocks there, again
and again. Once all those knock whom a member of the last world expects, the board opens the next
world for everyone who does.

A question is one line of JSON over TCP, and so is its answer; each has a limit. The client of
torch's TCPStore may wait for ever for a process that stands still, and can't be made in several
threads at a time.
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
"""How long a worker may take to answer; a thread of its own does that."""
KNOCK_SECONDS = 5.0
"""How long a knock counts: longer than whoever knocked may look at all others in between."""


def index_of(member: str) -> int:
    """Return which worker a member is: one life of it is called `index-life`, in six digits."""
    return int(member.partition("-")[0])


@dataclass(frozen=True)
class Record:
    """A world: workers that train together, in rank order."""

    generation: int
    """Grows with each world of a job."""
    members: tuple[str, ...]
    outcome: dict[str, Any] | None = None
    """What the job came to, once all is done."""

    @property
    def claim(self) -> tuple[int, int, int]:
        """What decides between two worlds: the newer, the larger, that of the first worker."""
        return self.generation, len(self.members), -index_of(self.members[0])


@dataclass(frozen=True)
class Snapshot:
    """What stands on a board."""

    owner: str
    store_port: int
    """Where the owner's store listens, at which the members of its worlds meet."""
    record: Record | None = None
    """The world that the owner was in last."""
    opening: Record | None = None
    """The world that was opened here last; it may not have formed yet."""


@dataclass(frozen=True)
class Knock:
    """A request for a place in the next world."""

    newest: int
    """The newest generation that this worker knows of, or has tried; 0 for none."""
    least: int
    """How many members the next world has at least."""
    expected: tuple[int, ...] | None
    """Indices of the workers without which it does not open; None leaves opening it to others."""


class Board:
    """A worker's own board; other workers reach it with `ask`."""

    def __init__(self, owner: str, store_port: int) -> None:
        self.content = Snapshot(owner, store_port)
        self.informed: set[int] = set()
        """Indices of the workers that have read it since its record has the job's outcome."""
        self._knocks: dict[int, tuple[float, str, Knock]] = {}
        self._lock = Lock()

    def ask(self, reader: str, knock: Knock | None = None) -> Snapshot:
        """Return what stands here after the worker `reader` has asked, and perhaps knocked."""
        index = index_of(reader)
        with self._lock:
            record, opening = self.content.record, self.content.opening
            if record is not None and record.outcome is not None:
                self.informed.add(index)
            if knock is not None:
                last = 0 if opening is None else opening.generation
                # Who still has to read that it is invited does not knock for the world after that.
                if opening is None or last <= knock.newest or reader not in opening.members:
                    self._knocks[index] = time.monotonic(), reader, knock
                    self._open(knock, last)
            return self.content

    def publish(self, record: Record) -> None:
        """Show which world the owner is in."""
        with self._lock:
            self.content = replace(self.content, record=record)

    def waiting(self) -> list[str]:
        """Return who knocked lately, and is not in a world that was opened here since."""
        with self._lock:
            return [member for member, _ in self._fresh()]

    def _fresh(self) -> list[tuple[str, Knock]]:
        since = time.monotonic() - KNOCK_SECONDS
        return [(member, knock) for at, member, knock in self._knocks.values() if at > since]

    def _open(self, asked: Knock, last: int) -> None:
        fresh = self._fresh()
        here = {index_of(member) for member, _ in fresh}
        if asked.expected is None or len(here) < asked.least or not here.issuperset(asked.expected):
            return
        generation = max(last, *(knock.newest for _, knock in fresh)) + 1
        members = tuple(sorted(member for member, _ in fresh))
        self.content = replace(self.content, opening=Record(generation, members))
        self._knocks.clear()


def ask(address: Address, reader: str, knock: Knock | None = None) -> Snapshot:
    """Return what `Board.ask` does of the board at `address`; `OSError` where none answers."""
    question = json.dumps({"reader": reader, "knock": knock and asdict(knock)})
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        connection.sendall(f"{question}\n".encode())
        with connection.makefile() as answer:
            try:
                found = json.loads(answer.readline())
                worlds = {key: _record(found[key]) for key in ("record", "opening")}
                return Snapshot(found["owner"], found["store_port"], **worlds)
            except (KeyError, TypeError, ValueError) as error:
                raise OSError(f"{address[0]}:{address[1]} is no worker: {error}") from error


def serve(board: Board, port: int) -> None:
    """Serve `board` on `port`, to everyone, as long as this process lives."""
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
        """Print nothing: whoever asked gets no answer, or is gone."""


class _Handler(StreamRequestHandler):
    timeout = ANSWER_SECONDS

    def __init__(self, board: Board, *connection: Any) -> None:
        self._board = board
        super().__init__(*connection)

    def handle(self) -> None:
        # A question that expects a thousand workers takes a tenth of that.
        asked = json.loads(self.rfile.readline(64 * 1024))
        knock = asked["knock"] and Knock(**asked["knock"])
        answer = json.dumps(asdict(self._board.ask(asked["reader"], knock)))
        self.wfile.write(f"{answer}\n".encode())


def _record(packed: dict[str, Any] | None) -> Record | None:
    return None if packed is None else Record(**{**packed, "members": tuple(packed["members"])})


def within(seconds: float, what: str, work: Callable[[], Result]) -> Result:
    """Return what `work` returns; in a thread, which TimeoutError leaves behind if it is slow."""
    future = begin(work)
    if not wait([future], seconds).done:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")
    return future.result()


def together(seconds: float, works: Mapping[int, Callable[[], Result]]) -> dict[int, Result]:
    """Do all of `works` side by side; return what those returned that ended well and in time."""
    begun = {key: begin(work) for key, work in works.items()}
    done = wait(begun.values(), seconds).done
    return {
        key: future.result()
        for key, future in begun.items()
        if future in done and future.exception() is None
    }


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Do `work` in a thread that nobody waits for at the end of the process, unlike a pool's."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
