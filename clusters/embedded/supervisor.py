"""Starts supervisord in the node's namespaces, and queries it."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusters.embedded import cgroups, config_files, network
from clusters.embedded.components import Component
from clusters.embedded.host import Host
from clusters.embedded.layout import Layout
from core.paths import CHECKOUT
from core.wait import until_well

_CALL_LIMIT = 10
"""Seconds for one call; stopping a component may take 5 of them."""
_ALREADY_STARTED = 60  # supervisor.xmlrpc.Faults, whose module imports all of supervisord
START_LIMIT = 20
"""Seconds from the command to supervisord's answer."""


class Unreachable(Exception):
    """supervisord does not answer."""


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

    A running one that does not answer is ended first. Where containers of the cluster
    survived it, it joins their mounts.

    Raises:
        RuntimeError: it fails.
        TimeoutError: it does not answer within `START_LIMIT` seconds.
    """
    _end_deaf(layout)
    log = layout.log("launch")
    program = [sys.executable, "-m", "clusters.embedded.launch", f"--directory={layout.directory}"]
    with log.open("w") as output, _surviving_mounts(layout) as survivor:
        if survivor is None:
            command = ["unshare", "--mount", "--propagation", "slave", "--", *program]
        else:
            mounts = f"--mount=/proc/self/fd/{survivor}"
            command = [host.path("nsenter"), mounts, "--", *program, "--joined"]
        try:
            # Files instead of pipes: nothing that stays running may hold the caller's own open.
            subprocess.run(
                [*network.enter(layout, host), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(host),
                pass_fds=[] if survivor is None else [survivor],
                timeout=START_LIMIT,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise RuntimeError(
                f"supervisord did not start: {error}: {log.read_text().strip()} ({log})"
            ) from error
    until_well(
        lambda: _answer_problem(layout),
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
        if now[component.name] not in {"RUNNING", "STARTING", "BACKOFF"}:
            _start(layout, component.name)


def _start(layout: Layout, name: str) -> None:
    try:
        _ask(layout, "startProcess", name, False)
    except xmlrpc.client.Fault as fault:
        # It had just exited, and supervisord, which starts it again by itself, was faster.
        if fault.faultCode != _ALREADY_STARTED:
            raise


def _environment(host: Host) -> dict[str, str]:
    """Only what is needed: the caller's environment holds secrets and proxies."""
    return {
        "PATH": config_files.search_path(host),
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONPATH": str(CHECKOUT),
    }


def _end_deaf(layout: Layout) -> None:
    """End a supervisord that lives and does not answer, and with it the components."""
    try:
        deaf = int((layout.runtime / "supervisord.pid").read_text())
    except (FileNotFoundError, ValueError):
        return
    # The number may have become another program's, outside the cluster's group.
    if deaf not in cgroups.components(layout):
        return
    os.kill(deaf, signal.SIGKILL)
    until_well(
        lambda: "it is still there" if deaf in cgroups.components(layout) else None,
        what=f"end of supervisord ({deaf})",
        limit=_CALL_LIMIT,
    )


@contextmanager
def _surviving_mounts(layout: Layout) -> Iterator[int | None]:
    """The mounts of a process that outlived supervisord, held open, or None."""
    for pid in sorted(cgroups.components(layout)):
        try:
            held = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
        except OSError:
            continue  # it was about to end
        try:
            yield held
        finally:
            os.close(held)
        return
    yield None


def _answer_problem(layout: Layout) -> str | None:
    try:
        pid(layout)
    except Unreachable as error:
        return str(error)
    return None


def _ask(layout: Layout, method: str, *arguments: object) -> Any:
    """Call a method of the interface `supervisor` (http://supervisord.org/api.html).

    Raises:
        Unreachable: no server answers at the socket.
        xmlrpc.client.Fault: supervisord refuses.
    """
    path = layout.supervisor_socket
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=_Transport(path)) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{path}: {error}") from error


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_CALL_LIMIT)
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
