"""Start supervisord in the node's namespaces, and control it."""

import http.client
import os
import socket
import sys
import xmlrpc.client
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clusters.embedded import network
from clusters.embedded.components import search_path
from clusters.embedded.layout import Layout
from core.paths import CHECKOUT
from core.problem import raised
from core.process import run as run_program
from core.wait import until_well

_CALL_LIMIT = 30
"""Timeout in seconds for a call to supervisord, which needs up to 5 s to stop a component."""
START_LIMIT = 20
"""Time limit in seconds from starting supervisord to its first response."""


class Unreachable(Exception):
    """supervisord is not responding. All functions that query or control it raise this."""


def states(layout: Layout) -> dict[str, str]:
    """Return all components' states, such as RUNNING, BACKOFF or FATAL, keyed by name."""
    return {info["name"]: info["statename"] for info in _ask(layout, "getAllProcessInfo")}


def pid(layout: Layout) -> int:
    """Return supervisord's process ID."""
    return int(_ask(layout, "getPID"))


def problem(layout: Layout) -> str | None:
    """Return why supervisord is not responding, or None if it is."""
    return raised(partial(pid, layout), Unreachable)


def start(layout: Layout) -> None:
    """Start supervisord, which detaches itself and starts components; none must be running yet."""
    # Only the variables it needs: this process's environment contains secrets and proxies.
    own = {"PATH": search_path(), "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(CHECKOUT)}
    run_program(
        *network.enter(layout),
        *("unshare", "--mount", "--propagation", "slave", "--"),
        *("env", "--ignore-environment", *(f"{name}={value}" for name, value in own.items())),
        *(sys.executable, "-m", "clusters.embedded.isolation", str(layout.directory)),
        cwd=Path("/"),
        limit=START_LIMIT,
    )
    until_well(
        lambda: problem(layout),
        what="supervisord to respond",
        limit=START_LIMIT,
        log=layout.log("supervisord"),
    )


def reload(layout: Layout) -> None:
    """Make supervisord apply its changed configuration."""
    added, changed, removed = _ask(layout, "reloadConfig")[0]
    for group in [*changed, *removed]:
        _ask(layout, "stopProcessGroup", group)
        _ask(layout, "removeProcessGroup", group)
    for group in [*added, *changed]:
        _ask(layout, "addProcessGroup", group)


def run(layout: Layout, names: Iterable[str]) -> None:
    """Start the named components that are not running, without the pause after a failure."""
    now = states(layout)
    for name in [each for each in names if now[each] not in {"RUNNING", "STARTING"}]:
        stop(layout, name)  # ends a pause (BACKOFF), which may be minutes long
        try:
            _ask(layout, "startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            # The component had just exited, and supervisord has already restarted it.
            if fault.faultCode != 60:  # ALREADY_STARTED of supervisor.xmlrpc.Faults
                raise


def stop(layout: Layout, *names: str) -> None:
    """Stop the named components, unless they or supervisord are down."""
    for name in names:
        with suppress(Unreachable, xmlrpc.client.Fault):  # supervisord or the component is down
            _ask(layout, "stopProcess", name)


def _ask(layout: Layout, method: str, *arguments: object) -> Any:
    """Call a method in supervisord's API (http://supervisord.org/api.html)."""
    path = layout.supervisor_socket
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=_Transport(path)) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{path}: {error}") from error


class _Transport(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket; it has a timeout, unlike the supervisor package's transport."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=_CALL_LIMIT)
        connection.sock = socket.socket(socket.AF_UNIX)
        # The base class closes this attribute.
        self._connection = host, connection
        connection.sock.settimeout(_CALL_LIMIT)
        connection.sock.connect(str(self._path))
        return connection
