"""Calls supervisord over its unix socket."""

import http.client
import socket
import xmlrpc.client
from pathlib import Path
from typing import Any

LIMIT = 10
"""Seconds for one call; stopping a component may take 5 of them."""


class Unreachable(Exception):
    """supervisord does not answer."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LIMIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _Transport(xmlrpc.client.Transport):
    """XML-RPC over a unix socket; the supervisor package's own has no limit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        # Kept where the base class looks for what to close.
        self._connection = host, _Connection(self._path)
        return self._connection[1]


def call(path: Path, method: str, *arguments: object) -> Any:
    """Call a method of the interface `supervisor` (http://supervisord.org/api.html).

    Raises:
        Unreachable: nobody answers at the socket.
        xmlrpc.client.Fault: supervisord refuses.
    """
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=_Transport(path)) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{path}: {error}") from error
