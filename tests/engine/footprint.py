"""What a running stack holds on this machine, and whether it is gone after `make down`.

It is found by looking at the machine (which processes, which namespaces, which mounts) and
not by asking the product, so that what the product forgot is found, too.
"""

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from core import toolchain
from core.process import run
from tests.engine.procfs import Process, everyone

_NAMESPACES = Path("/run/netns")
_SHARED = tuple(
    Path(name)
    for name in (
        "/etc/cni/net.d", "/run/containerd", "/run/containerd/s", "/run/netns", "/run/runc",
        "/run/slipway",
        "/var/lib/cni", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet",
        "/var/log/containers", "/var/log/pods",
    )
)  # fmt: skip
"""Where Kubernetes' components and the embedded cluster keep things beside their state."""


@dataclass(frozen=True)
class Baseline:
    """The machine before the stack: what is there now is nothing of the stack's."""

    files: frozenset[Path]
    tables: frozenset[str]

    @classmethod
    def take(cls) -> "Baseline":
        return cls(frozenset(_shared_files()), _tables())


@dataclass(frozen=True)
class Footprint:
    """What belongs to the stack whose state lies under `directory`, while it runs."""

    directory: Path
    processes: frozenset[Process]
    namespaces: frozenset[Path]
    cgroups: frozenset[Path]
    links: frozenset[str]

    @classmethod
    def take(cls, directory: Path) -> "Footprint":
        processes = _belonging_to(directory)
        inodes = {process.namespace for process in processes} - {_inode(Path("/proc/self/ns/net"))}
        named = _NAMESPACES.iterdir() if _NAMESPACES.is_dir() else ()
        namespaces = {path for path in named if _inode(path) in inodes}
        here = Process.of(os.getpid())
        return cls(
            directory=directory,
            processes=frozenset(processes),
            namespaces=frozenset(namespaces),
            cgroups=frozenset(path for process in processes for path in process.cgroups)
            - (frozenset() if here is None else here.cgroups),
            links=frozenset(_links_into({path.name for path in namespaces})),
        )

    def left(self, before: Baseline, patience_seconds: float) -> list[str]:
        """Return a line for everything that is still there; empty when nothing is.

        The kernel ends what was deleted a moment later, so this looks again for a while.
        """
        deadline = time.monotonic() + patience_seconds
        while (left := self._left(before)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def _left(self, before: Baseline) -> list[str]:
        running = {p for p in self.processes if p.runs_still()} | _belonging_to(self.directory)
        marks = [str(self.directory), *(str(path) for path in self.namespaces)]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        links = self.links & {path.name for path in Path("/sys/class/net").iterdir()}
        files = {path for path in _shared_files() - before.files if not _in_use(path)}
        return [
            *(f"process {p.pid}: {p.places}" for p in running),
            *(f"mount: {line}" for line in mounts if any(mark in line for mark in marks)),
            *(f"network namespace: {path}" for path in self.namespaces if path.exists()),
            *(f"network device: {name}" for name in links),
            *(f"nftables table: {name}" for name in _tables() - before.tables),
            *(f"control group: {path}" for path in self.cgroups if path.exists()),
            *(f"file: {path}" for path in sorted(files)),
        ]


def _belonging_to(directory: Path) -> set[Process]:
    """Return the processes that run from, in or with `directory`, and their descendants.

    This process and what it started on the way are not among them.
    """
    all_processes = everyone()
    found = {p.pid: p for p in all_processes if str(directory) in p.places}
    while True:
        children = {p.pid: p for p in all_processes if p.parent in found and p.pid not in found}
        if not children:
            return set(found.values())
        found |= children


def _links_into(namespaces: set[str]) -> set[str]:
    """Return this host's network devices whose other end lies in one of `namespaces`."""
    listing = run("ip", "-details", "-oneline", "link", "show", "type", "veth")
    return {
        line.split(":")[1].strip().split("@")[0]
        for line in listing.splitlines()
        if any(f"link-netns {name}" in line for name in namespaces)
    }


def _tables() -> frozenset[str]:
    """Return the tables but those of commands, which other tests run beside; see test_ports.py."""
    lines = run(str(toolchain.path("nft")), "list", "tables").splitlines()
    return frozenset(line for line in lines if "slipway-cli-" not in line)


def _shared_files() -> set[Path]:
    return {path for place in _SHARED if place.is_dir() for path in place.iterdir()}


def _in_use(path: Path) -> bool:
    """Return whether another, living cluster on this machine holds `path`."""
    sockets = [path] if path.is_socket() else [p for p in path.glob("*") if p.is_socket()]
    if sockets:
        return any(_answers(candidate) for candidate in sockets)
    if path.parent == _NAMESPACES:
        inode = _inode(path)
        return any(process.namespace == inode for process in everyone())
    return False


def _inode(path: Path) -> int | None:
    """Return a file's inode; None when another cluster has taken it away meanwhile."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
