"""What is left of a cluster: what the machine has, not what was made.

Whatever bears the cluster's name, lies in its directories or has its addresses is found, whoever
made it and wherever it is, so that leftovers of a removal are found, too.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from clusters.embedded import cgroups
from clusters.embedded.layout import Layout
from core.process import CommandFailed, run

_SHARED = tuple(
    Path(name)
    for name in (
        "/etc/cni/net.d", "/run", "/run/containerd", "/run/runc", "/run/slipway", "/var/lib/cni",
        "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet",
        "/var/log/containers", "/var/log/pods",
    )
)  # fmt: skip
"""Where the components of a cluster keep things that are not in its own directories."""
_NAMESPACES = Path("/run/netns")
_PROC = Path("/proc")
_PLACES = ("exe", "cwd", "root")


def remains(layout: Layout) -> Mapping[str, list[str]]:
    """The existing things of each kind, every one with how to remove it.

    A kind that this machine doesn't let us look for is left out.
    """
    if not Path("/proc/self").exists():
        return {"files": _listed(_files(layout))}  # not Linux: no cluster ever ran here
    traces = Traces.of(layout)
    found = {
        "processes": traces.processes(),
        "network namespaces": [
            f"network namespace {path.name}: ip netns delete {path.name}"
            for path in _in([_NAMESPACES], layout.node)
        ],
        "mounts": traces.mounts(),
        "control groups": _cgroups(layout),
        "sockets": traces.sockets(),
        "files": _listed(_files(layout)),
    }
    for kind, look in (("interfaces", _interfaces), ("firewall rules", _rules)):
        try:
            found[kind] = look(layout)
        except CommandFailed:
            continue
    return found


@dataclass(frozen=True)
class Traces:
    """Processes that have to do with a cluster, and the mounts and sockets that they see.

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
        """Return what identifies something as the cluster's."""
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
        """A process of each existing namespace."""
        seen: set[int | None] = {None}
        for process in self.programs:
            if (inode := _inode(process, kind)) not in seen:
                seen.add(inode)
                yield inode, process


def _interfaces(layout: Layout) -> list[str]:
    """Of the host: by name, or by an address of the cluster's."""
    listing = json.loads(run(_program("ip"), "-json", "address"))
    return [
        f"interface {each['ifname']}: ip link delete {each['ifname']}"
        for each in listing
        if each
        and (layout.id in each["ifname"] or any(_is_ours(a, layout) for a in each["addr_info"]))
    ]


def _is_ours(address: Mapping[str, str], layout: Layout) -> bool:
    return address["family"] == "inet" and IPv4Address(address["local"]) in layout.uplink


def _rules(layout: Layout) -> list[str]:
    marks = (layout.id, str(layout.host_address), str(layout.node_address))
    lines = run(_program("nft"), "list", "ruleset").splitlines()
    return [
        f"firewall rule {line.strip()!r}: see `nft -a list ruleset`"
        for line in lines
        if any(mark in line for mark in marks)
    ]


def _cgroups(layout: Layout) -> list[str]:
    tops = [
        Path(group, name)
        for tree in cgroups.hierarchies()
        for group, names, _ in os.walk(tree.root)
        for name in names
        if layout.node in name
    ]
    return [f"control group {path}: find {path} -depth -type d -delete" for path in tops]


def _files(layout: Layout) -> list[Path]:
    own = [path for path in (layout.directory, layout.runtime) if path.exists()]
    return [*own, *(path for path in _in(_SHARED, layout.id) if path not in own)]


def _listed(paths: list[Path]) -> list[str]:
    return [f"{path}: rm -r {path}" for path in paths]


def _in(places: list[Path] | tuple[Path, ...], mark: str) -> list[Path]:
    return [path for place in places if place.is_dir() for path in place.glob(f"*{mark}*")]


def _program(name: str) -> str:
    """Look on PATH: set-up's record may have gone before the cluster."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or name


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
    """Return a file's content; nothing when its process has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
