"""Plays the part of kubelets that serves containers' logs, for nodes that kwok simulates.

    python -m tests.bench.container_logs ADDRESS PORT CERTIFICATE KEY ENDED

Each log is a `step` event a second. A log that is followed ends once the file ENDED exists; then
each is 20 lines long. TLS and addresses are the real ones, so that the API server comes here.
"""

import json
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Kubelet(BaseHTTPRequestHandler):
    """Serves `/containerLogs/NAMESPACE/POD/CONTAINER`."""

    ended: Path

    def do_GET(self) -> None:
        """Send the log."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        with suppress(OSError):
            for line in self._lines(is_followed="follow=true" in self.path):
                self.wfile.write(line)
                self.wfile.flush()

    def _lines(self, *, is_followed: bool) -> Iterator[bytes]:
        for step in range(10**6 if is_followed else 20):
            if is_followed and step > 0:
                if self.ended.exists():
                    return
                time.sleep(1)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
            numbers = {"epoch": 1, "step": step, "steps": 600, "samples": 64 * step, "loss": 1.0}
            event = {"event": "step", "rank": 0, "time": now, **numbers}
            yield f"{now} {json.dumps(event)}\n".encode()

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    """A handshake belongs to its request's thread, or one slow client would stop all others."""

    daemon_threads = True
    request_queue_size = 1024


def main() -> None:
    """Serve until killed."""
    address, port, certificate, key, ended = sys.argv[1:]
    Kubelet.ended = Path(ended)
    server = Server((address, int(port)), Kubelet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
