"""Runs an HTTP server of a test beside it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def in_background(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serve in a thread; at the end the server is closed and its thread gone."""
    # A test would wait for the default of half a second at its end.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
