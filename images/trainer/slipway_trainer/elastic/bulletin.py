"""Boards over HTTP, with Python's own server and client; every request has a limit.

torch's TCPStore does not do for it: its client may wait for ever for a process that stands still,
and clients cannot be made in several threads at a time.
"""

import json
import socket
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any, ClassVar

from slipway_trainer.elastic.board import Board, Member, Opening, Record, Snapshot
from slipway_trainer.elastic.settings import Address

ANSWER_SECONDS = 2.0
"""How long a worker may take to answer; a thread of its own does that."""
_MOST_BYTES = 64 * 1024
"""In a request: an opening with a thousand guests takes a quarter of it."""


def ask(
    address: Address, reader: int, knock: Member | None = None, opening: Opening | None = None
) -> Snapshot:
    """Return what `Board.ask` returns for the board that is served at `address`.

    Raises:
        OSError: the worker does not answer, or what answers is none.
    """
    message = {
        "reader": reader,
        "knock": knock and asdict(knock),
        "opening": opening and asdict(opening),
    }
    connection = HTTPConnection(*address, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/", json.dumps(message))
        return _snapshot(json.load(connection.getresponse()))
    except (HTTPException, ValueError, KeyError, TypeError) as error:
        raise OSError(f"{address[0]}:{address[1]} is no worker: {error}") from error
    finally:
        connection.close()


def serve(board: Board, port: int) -> None:
    """Serve `board` on `port`, to everyone, as long as this process lives.

    Raises:
        OSError: the port is taken.
    """
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
