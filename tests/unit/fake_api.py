"""An API server that answers from a table, for what asks a cluster a few plain questions."""

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

from tests.doubles.serving import in_background

Answer = tuple[int, Any]
Respond = Callable[[Any], Answer]


@dataclass
class FakeApi:
    """What the server answers, and what it was asked.

    Args:
        answers: By method and path, without the query: a function from the request's body to
            status and document. What is not there is answered 404.
        clock: Its time, in seconds since 1970; None for this machine's.
        cut: Paths whose answer ends before its last bytes.
    """

    answers: dict[tuple[str, str], Respond] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    kubeconfig: str = ""
    port: int = 0
    clock: float | None = None
    cut: set[str] = field(default_factory=set)

    def says(self, method: str, path: str, document: Any, status: int = 200) -> None:
        """Answer the same whatever is sent."""
        self.answers[method, path] = lambda _body: (status, document)


def judged(job: Any) -> Answer:
    """Answer to a PyTorchJob as the API server does that calls the operator's webhook."""
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    if template["spec"]["containers"][0]["name"] == "pytorch":
        return 201, job
    return 403, {"kind": "Status", "message": "the webhook denied the request: no containers"}


@contextmanager
def served(api: FakeApi, tls: ssl.SSLContext | None = None) -> Iterator[FakeApi]:
    """Serve `api` on this machine; its `kubeconfig` leads there.

    With `tls` it is spoken there, and the kubeconfig has the `port` alone to tell.
    """

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = self.path.partition("?")[0]
            api.asked.append((self.command, self.path, body))
            refused: Answer = (404, {"kind": "Status", "message": f"{path} not found"})
            respond = api.answers.get((self.command, path), lambda _body: refused)
            status, document = respond(body)
            is_text = isinstance(document, str | bytes)
            text = document if is_text else json.dumps(document)
            content = text if isinstance(text, bytes) else text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: -5 if path in api.cut else None])

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 (as http.server calls them)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(api.clock if timestamp is None else timestamp)

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.port = server.server_address[1]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    api.kubeconfig = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "made-up"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
    with in_background(server):
        yield api
