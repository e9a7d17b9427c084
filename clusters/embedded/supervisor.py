"""Starts supervisord in the node's namespaces, and queries it."""

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
from clusters.embedded.components import Component, search_path
from clusters.embedded.layout import Layout
from core.paths import CHECKOUT
from core.problem import raised
from core.process import run as run_program
from core.wait import until_well

_CALL_LIMIT = 30
"""Seconds for one call; stopping a component may take 5 of them."""
START_LIMIT = 20
"""Seconds from the command to supervisord's answer."""


class Unreachable(Exception):
    """supervisord does not answer: any function that calls it raises this."""


def states(layout: Layout) -> dict[str, str]:
    """The state of every component, such as RUNNING, BACKOFF or FATAL, by its name."""
    return {info["name"]: info["statename"] for info in _ask(layout, "getAllProcessInfo")}


def pid(layout: Layout) -> int:
    """The process of supervisord."""
    return int(_ask(layout, "getPID"))


def problem(layout: Layout) -> str | None:
    """Return why supervisord does not answer; None when it does."""
    return raised(partial(pid, layout), Unreachable)


def start(layout: Layout) -> None:
    """Start supervisord, which detaches itself and starts the components. Nothing of it may run."""
    # Only what is needed: this process's environment holds secrets and proxies.
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
        what="supervisord answering",
        limit=START_LIMIT,
        log=layout.log("supervisord"),
    )


def reload(layout: Layout) -> None:
    """Take up changed configuration."""
    added, changed, removed = _ask(layout, "reloadConfig")[0]
    for group in [*changed, *removed]:
        _ask(layout, "stopProcessGroup", group)
        _ask(layout, "removeProcessGroup", group)
    for group in [*added, *changed]:
        _ask(layout, "addProcessGroup", group)


def run(layout: Layout, components: Iterable[Component]) -> None:
    """Start those of the components that are not running."""
    now = states(layout)
    for component in components:
        if now[component.name] in {"RUNNING", "STARTING", "BACKOFF"}:
            continue
        try:
            _ask(layout, "startProcess", component.name, False)
        except xmlrpc.client.Fault as fault:
            # It had just exited, and supervisord, which starts it again by itself, was faster.
            if fault.faultCode != 60:  # ALREADY_STARTED of supervisor.xmlrpc.Faults
                raise


def stop(layout: Layout, *names: str) -> None:
    """Stop those of the components that are running, if anything is."""
    for name in names:
        with suppress(Unreachable, xmlrpc.client.Fault):  # nothing runs, or this does not
            _ask(layout, "stopProcess", name)


def _ask(layout: Layout, method: str, *arguments: object) -> Any:
    """Call a method of the interface `supervisor` (http://supervisord.org/api.html)."""
    path = layout.supervisor_socket
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=_Transport(path)) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{path}: {error}") from error


class _Transport(xmlrpc.client.Transport):
    """XML-RPC over a unix socket; the supervisor package's own has no limit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=_CALL_LIMIT)
        connection.sock = socket.socket(socket.AF_UNIX)
        # Kept where the base class looks for what to close.
        self._connection = host, connection
        connection.sock.settimeout(_CALL_LIMIT)
        connection.sock.connect(str(self._path))
        return connection
