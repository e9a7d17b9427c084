"""A webhook on loopback that keeps what it got."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.doubles.serving import in_background

PATH = "shown-to-nobody"
"""What makes its address a secret."""


@dataclass
class Webhook:
    """It answers with these statuses in turn, and with the last one for ever."""

    port: int
    answers: list[int] = field(default_factory=lambda: [204])
    got: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    hanging: threading.Event | None = None  # until it is set nothing is answered

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/{PATH}"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]

    def answer(self, headers: Mapping[str, str], body: bytes) -> int:
        """Return the status for a request."""
        self.got.append((headers, body))
        if self.hanging is not None:
            self.hanging.wait(30)
        return self.answers[min(len(self.got), len(self.answers)) - 1]


def signature(key: str, body: bytes) -> str:
    """Return how a receiver knows that a body is from who has the key."""
    return f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}"


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Yield a webhook that takes everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(made.answer(dict(self.headers), body))
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Webhook(server.server_address[1])
    with in_background(server):
        yield made
        if made.hanging is not None:
            made.hanging.set()
