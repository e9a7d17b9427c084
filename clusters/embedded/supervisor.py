"""Starts supervisord in the node's namespaces, and asks it."""

import http.client
import os
import socket
import subprocess
import sys
import xmlrpc.client
from pathlib import Path
from typing import Any

from clusters.embedded import cgroups, network, supervision, waiting
from clusters.embedded.component import Host
from clusters.embedded.layout import Layout
from infra.paths import CHECKOUT

START_LIMIT = 20
"""Seconds from the command to supervisord's answer."""
ANSWER_LIMIT = 30
"""Seconds for one question; stopping a component may take 10 of them."""


class Unreachable(Exception):
    """supervisord does not answer."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_LIMIT)
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


def states(layout: Layout) -> dict[str, str]:
    """The state of every component, such as RUNNING, BACKOFF or FATAL, by its name.

    Raises:
        Unreachable: supervisord does not answer.
    """
    return {info["name"]: info["statename"] for info in _ask(layout, "getAllProcessInfo")}


def pid(layout: Layout) -> int:
    """The process of supervisord. Raises `Unreachable`."""
    found: int = _ask(layout, "getPID")
    return found


def start(layout: Layout, host: Host) -> None:
    """Start supervisord, which detaches itself and starts the components.

    Where containers of the cluster survived it, it joins their mounts.

    Raises:
        RuntimeError: it fails.
        TimeoutError: it does not answer within `START_LIMIT` seconds.
    """
    log = layout.log("launch")
    survivors = sorted(cgroups.components(layout))
    if survivors:
        mounts = [host.path("nsenter"), f"--mount=/proc/{survivors[0]}/ns/mnt", "--"]
        options = ["--joined"]
    else:
        mounts = ["unshare", "--mount", "--propagation", "slave", "--"]
        options = []
    module = [sys.executable, "-m", "clusters.embedded.launch"]
    program = [*module, f"--directory={layout.directory}", *options]
    with log.open("w") as output:
        # Files instead of pipes: nothing that stays running may hold the caller's own open.
        done = subprocess.run(
            [*network.enter(layout, host), *mounts, *program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            # Only what is needed: the caller's environment holds secrets and proxies.
            env={
                "PATH": supervision.search_path(host),
                "HOME": os.environ.get("HOME", "/"),
                "PYTHONPATH": str(CHECKOUT),
            },
            timeout=START_LIMIT,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"supervisord did not start: {log.read_text().strip()} ({log})")
    waiting.until_well(
        lambda: _answer_problem(layout),
        what="supervisord answering",
        limit=START_LIMIT,
        log=layout.log("supervisord"),
    )


def reload(layout: Layout) -> None:
    """Take up changed configuration, and start every component that is not running."""
    added, changed, removed = _ask(layout, "reloadConfig")[0]
    for group in [*changed, *removed]:
        _ask(layout, "stopProcessGroup", group)
        _ask(layout, "removeProcessGroup", group)
    for group in [*added, *changed]:
        _ask(layout, "addProcessGroup", group)
    for name, state in states(layout).items():
        if state not in {"RUNNING", "STARTING", "BACKOFF"}:
            _ask(layout, "startProcess", name, False)


def _answer_problem(layout: Layout) -> str | None:
    try:
        pid(layout)
    except Unreachable as error:
        return str(error)
    return None


def _ask(layout: Layout, method: str, *arguments: object) -> Any:
    transport = _Transport(layout.supervisor_socket)
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{layout.supervisor_socket}: {error}") from error
