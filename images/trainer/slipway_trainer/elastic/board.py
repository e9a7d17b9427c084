"""What a worker tells all others, from its start to its end, and what they can ask of it.

Each worker has a board, in memory. On it stands who the worker is and which world it was in last.
Where the worker is the host, the one through which the next world forms, newcomers knock there,
and whoever comes first opens the next generation with a list of its guests.

Boards are served over HTTP, with Python's own server and client; every request has a limit. torch's
TCPStore does not do for it: its client may wait for ever for a process that stands still, and
clients cannot be made in several threads at a time.
"""

import json
import socket
from dataclasses import asdict, dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from typing import Any, ClassVar

from slipway_trainer.elastic.settings import Address

ANSWER_SECONDS = 2.0
"""How long a worker may take to answer; a thread of its own does that."""
_MOST_BYTES = 64 * 1024
"""In a request: an opening with a thousand guests takes a quarter of it."""


@dataclass(frozen=True, order=True)
class Member:
    """One life of a worker: a replacement has the same index and another incarnation."""

    index: int
    incarnation: str


@dataclass(frozen=True)
class Record:
    """A world that formed, with its members in rank order."""

    generation: int
    """Grows with each world of a job."""
    members: tuple[Member, ...]
    outcome: dict[str, Any] | None = None
    """What the job came to, once all is done."""

    @property
    def claim(self) -> tuple[int, int, int]:
        """What decides between two worlds: the newer, the larger, that of the first worker."""
        return self.generation, len(self.members), -self.host.index

    @property
    def host(self) -> Member:
        """The first of the members, by index."""
        return min(self.members)


@dataclass(frozen=True)
class Opening:
    """The next world, before it has formed."""

    generation: int
    guests: tuple[str, ...]
    """Incarnations of those who are expected."""
    knocks: int
    """How many of the host's knocks were considered."""

    def invites(self, member: Member) -> bool:
        """Return whether `member` is among the guests."""
        return member.incarnation in self.guests


@dataclass(frozen=True)
class Snapshot:
    """What stands on a board."""

    owner: Member
    store_port: int
    """Where the owner's store listens, through which worlds form."""
    record: Record | None = None
    """The world that the owner was in last."""
    opening: Opening | None = None
    """The world that was opened here last."""
    knocks: tuple[Member, ...] = ()
    """Who knocked so far, in order."""

    @property
    def waiting(self) -> tuple[Member, ...]:
        """Who knocked after the last world was opened."""
        return self.knocks[self.opening.knocks if self.opening is not None else 0 :]


@dataclass
class Board:
    """A worker's own board; other workers reach it with `ask`."""

    content: Snapshot
    told: set[int] = field(default_factory=set)
    """Indices of the workers that have read it since its record said the job is done."""
    _lock: Lock = field(default_factory=Lock)

    def ask(
        self, reader: int, knock: Member | None = None, opening: Opening | None = None
    ) -> Snapshot:
        """Return what stands here after the worker of that index has asked.

        It may knock, for a place in the next world, or open one, unless that is open already.
        """
        with self._lock:
            content = self.content
            if knock is not None:
                content = replace(content, knocks=(*content.knocks, knock))
            last = content.opening
            if opening is not None and (last is None or last.generation < opening.generation):
                content = replace(content, opening=opening)
            if content.record is not None and content.record.outcome is not None:
                self.told.add(reader)
            self.content = content
            return content

    def publish(self, record: Record) -> None:
        """Say which world the owner is in."""
        with self._lock:
            self.content = replace(self.content, record=record)


def ask(
    address: Address, reader: int, knock: Member | None = None, opening: Opening | None = None
) -> Snapshot:
    """Return what `Board.ask` returns for the board that is served at `address`.

    `OSError` is raised when the worker does not answer, or what answers is none.
    """
    asked = {"knock": knock and asdict(knock), "opening": opening and asdict(opening)}
    connection = HTTPConnection(*address, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/", json.dumps({"reader": reader, **asked}))
        return _snapshot(json.load(connection.getresponse()))
    except (HTTPException, ValueError, KeyError, TypeError) as error:
        raise OSError(f"{address[0]}:{address[1]} is no worker: {error}") from error
    finally:
        connection.close()


def serve(board: Board, port: int) -> None:
    """Serve `board` on `port`, to everyone, as long as this process lives."""
    server = _Server(("", port), type("Handler", (_Handler,), {"board": board}))
    Thread(target=server.serve_forever, name="bulletin", daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's, which asks DNS for the machine's name.
        TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    board: ClassVar[Board]
    timeout = ANSWER_SECONDS

    def do_POST(self) -> None:
        """Answer with what stands on the board afterwards."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            self.send_error(413, explain=f"a request has at most {_MOST_BYTES} bytes")
            return
        try:
            message = json.loads(self.rfile.read(int(length)))
            reader, knock, opening = message["reader"], message["knock"], message["opening"]
            found = self.board.ask(reader, knock and Member(**knock), opening and _opening(opening))
        except (KeyError, TypeError, ValueError) as error:
            self.send_error(400, explain=f"{type(error).__name__}: {error}")
            return
        answer = json.dumps(asdict(found)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base calls it
        """Say nothing: what matters is told as events."""


def _snapshot(packed: dict[str, Any]) -> Snapshot:
    record, opening = packed["record"], packed["opening"]
    return Snapshot(
        Member(**packed["owner"]),
        packed["store_port"],
        record and Record(record["generation"], _members(record["members"]), record["outcome"]),
        opening and _opening(opening),
        _members(packed["knocks"]),
    )


def _members(packed: list[dict[str, Any]]) -> tuple[Member, ...]:
    return tuple(Member(**member) for member in packed)


def _opening(packed: dict[str, Any]) -> Opening:
    return Opening(packed["generation"], tuple(packed["guests"]), packed["knocks"])
