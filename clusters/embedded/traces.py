"""Processes that have to do with a cluster, and the mounts and sockets that they see."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clusters.embedded.layout import Layout

_PROC = Path("/proc")
_PLACES = ("exe", "cwd", "root")


@dataclass(frozen=True)
class Traces:
    """What to look for, and in which processes.

    Args:
        places: Finds a path in the cluster's directories.
        name: The node's name; control groups are called by it.
        address: Finds an address of the cluster's.
        programs: Every process but this one and those that wait for it.
    """

    places: re.Pattern[str]
    name: str
    address: re.Pattern[str]
    programs: tuple[Path, ...]

    @classmethod
    def of(cls, layout: Layout) -> "Traces":
        """Return what tells that something is the cluster's."""
        directories = "|".join(re.escape(str(path)) for path in (layout.directory, layout.runtime))
        addresses = "|".join(
            re.escape(str(each)) for each in (layout.host_address, layout.node_address)
        )
        return cls(
            places=re.compile(rf"(?:{directories})(?![\w.-])"),
            name=layout.node,
            address=re.compile(rf"(?<![\d.])(?:{addresses})(?![\d.])"),
            programs=_others(),
        )

    def processes(self) -> list[str]:
        """Processes of the cluster, in words."""
        networks = {inode for inode, process in self._one_each("net") if self._is_network(process)}
        views = {inode for inode, process in self._one_each("mnt") if self._mounts(process)}
        # The host's own network and mounts are everybody's.
        networks.discard(_inode(_PROC / "self", "net"))
        views.discard(_inode(_PROC / "self", "mnt"))
        return [
            f"process {process.name} ({_text(process / 'comm').strip()}): kill -9 {process.name}"
            for process in self.programs
            if self.name in _text(process / "cgroup")
            or self.places.search(_whereabouts(process))
            or _inode(process, "net") in networks
            or _inode(process, "mnt") in views
        ]

    def mounts(self) -> list[str]:
        """Mounts of the host in the cluster's directories, in words."""
        return [f"mount {point}: umount {point}" for point in self._mounts(_PROC / "self")]

    def sockets(self) -> list[str]:
        """Unix sockets with a path in the cluster's directories, in words."""
        lines = [
            line
            for _, process in self._one_each("net")
            for line in _text(process / "net/unix").splitlines()
        ]
        paths = sorted({line.split()[-1] for line in lines if self.places.search(line)})
        return [f"socket {path}: rm {path}" for path in paths]

    def _is_network(self, process: Path) -> bool:
        return self.address.search(_text(process / "net/fib_trie")) is not None

    def _mounts(self, process: Path) -> list[str]:
        lines = [line.split(" ") for line in _text(process / "mountinfo").splitlines()]
        # What is mounted, in its own file system, and where (proc_pid_mountinfo(5)).
        return [
            fields[4] for fields in lines if any(self.places.search(part) for part in fields[3:5])
        ]

    def _one_each(self, kind: str) -> Iterator[tuple[int | None, Path]]:
        """A process of each namespace that there is."""
        seen: set[int | None] = {None}
        for process in self.programs:
            if (inode := _inode(process, kind)) not in seen:
                seen.add(inode)
                yield inode, process


def _others() -> tuple[Path, ...]:
    waiting = set(_ancestors(os.getpid()))
    return tuple(path for path in _PROC.glob("[0-9]*") if int(path.name) not in waiting)


def _ancestors(pid: int) -> Iterable[int]:
    while pid > 0:
        yield pid
        # The name in brackets may hold blanks.
        fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0


def _whereabouts(process: Path) -> str:
    links = [_link(process / name) for name in _PLACES]
    return " ".join([*links, _text(process / "cmdline").replace("\0", " ")])


def _inode(process: Path, namespace: str) -> int | None:
    try:
        return (process / "ns" / namespace).stat().st_ino
    except OSError:
        return None


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    """What a file says; nothing when its process has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
