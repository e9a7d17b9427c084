"""Boards over HTTP, with Python's own server and client; every request has a limit.

torch's TCPStore does not do for it: its client may wait for ever for a process that stands still,
and clients cannot be made in several threads at a time.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any, ClassVar

from slipway_trainer.elastic.board import Board, Member, Opening, Snapshot, pack, unpack
from slipway_trainer.elastic.settings import Address

ANSWER_SECONDS = 2.0
"""How long a worker may take to answer; a thread of its own does that."""
_MOST_BYTES = 64 * 1024
"""In a request: an `open` with a thousand guests takes a quarter of it."""


class RemoteBoard:
    """Another worker's board.

    Args:
        address: The worker's address, and the port that its board is served on.
        reader: Index of the worker that asks.

    Each method raises OSError when the worker does not answer.
    """

    def __init__(self, address: Address, reader: int) -> None:
        self.address = address
        self._reader = reader

    def read(self) -> Snapshot:
        """Return what stands there."""
        return self._ask("/read", {"reader": self._reader})

    def knock(self, newcomer: Member) -> Snapshot:
        """Ask the owner for a place in the next world."""
        return self._ask("/knock", asdict(newcomer))

    def open(self, opening: Opening) -> Snapshot:
        """Open a world, unless its generation was opened already."""
        return self._ask("/open", asdict(opening))

    def _ask(self, path: str, message: dict[str, Any]) -> Snapshot:
        connection = HTTPConnection(*self.address, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", path, json.dumps(message))
            return unpack(json.load(connection.getresponse()))
        except (HTTPException, ValueError, KeyError, TypeError) as error:
            raise OSError(f"{self.address[0]}:{self.address[1]} is no worker: {error}") from error
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
        text = self.rfile.read(int(length))
        ways: dict[str, Callable[[dict[str, Any]], Snapshot]] = {
            "/read": lambda message: self.board.read(message["reader"]),
            "/knock": lambda message: self.board.knock(Member(**message)),
            "/open": lambda message: self.board.open(
                Opening(message["generation"], tuple(message["guests"]), message["knocks"])
            ),
        }
        try:
            answer = json.dumps(pack(ways[self.path](json.loads(text)))).encode()
        except (KeyError, TypeError, ValueError) as error:
            self.send_error(400, explain=f"{type(error).__name__}: {error}")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base calls it
        """Say nothing: what matters is told as events."""
