"""What is left of a cluster: what the machine has, not what was made.

Whatever bears the cluster's name, lies in its directories or has its addresses is found, whoever
made it and wherever it is, so that leftovers of a removal are found, too.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from clusters.embedded import cgroups
from clusters.embedded.layout import Layout
from core.process import CommandFailed, run

_SHARED = (
    "/etc/cni/net.d", "/run", "/run/containerd", "/run/runc", "/run/slipway", "/var/lib/cni",
    "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet",
    "/var/log/containers", "/var/log/pods",
)  # fmt: skip
"""Where the components of a cluster keep things that are not in its own directories."""
_PROC = Path("/proc")
_SELF = _PROC / "self"


def remains(layout: Layout) -> Mapping[str, list[str]]:
    """The existing things of each kind, every one with how to remove it.

    A kind that this machine doesn't let us look for is left out.
    """
    if not _SELF.exists():
        return {"files": _files(layout)}  # not Linux: no cluster ever ran here
    # Not those of a neighbor whose name or address only begins alike.
    places = re.compile(rf"(?:{_either(layout.directory, layout.runtime)})(?![\w.-])")
    either = _either(layout.host_address, layout.node_address)
    addresses = re.compile(rf"(?<![\d.])(?:{either})(?![\d.])")
    processes = others()
    found = {
        "processes": [
            f"process {each.name} ({_text(each / 'comm').strip()}): kill -9 {each.name}"
            for each in processes
            if layout.node in _text(each / "cgroup")
            or places.search(_whereabouts(each))
            or addresses.search(_private(each, "net", "net/fib_trie"))
            or places.search(_private(each, "mnt", "mountinfo"))
        ],
        "network namespaces": [
            f"network namespace {path.name}: ip netns delete {path.name}"
            for path in layout.network_namespace.parent.glob(f"*{layout.node}*")
        ],
        "mounts": _mounts(places),
        "control groups": _cgroups(layout),
        "sockets": _sockets(places, processes),
        "files": _files(layout),
    }
    marks = re.compile(f"{layout.id}|{addresses.pattern}")
    for kind, look in (("interfaces", _interfaces), ("firewall rules", _rules)):
        try:
            found[kind] = look(marks)
        except CommandFailed:
            continue
    return found


def others() -> list[Path]:
    """In /proc, every process but this one and those that wait for it."""
    waiting, pid = set(), os.getpid()
    while pid > 0:
        waiting.add(pid)
        # The name in brackets may hold blanks.
        fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return [path for path in _PROC.glob("[0-9]*") if int(path.name) not in waiting]


def _either(*things: object) -> str:
    return "|".join(re.escape(str(thing)) for thing in things)


def _whereabouts(process: Path) -> str:
    links = [_link(process / name) for name in ("exe", "cwd", "root")]
    return " ".join([*links, _text(process / "cmdline").replace("\0", " ")])


def _private(process: Path, namespace: str, file: str) -> str:
    """Return what a process sees in its own namespace; the host's own is everybody's."""
    link = f"ns/{namespace}"
    is_own = _link(process / link) not in {"", _link(_SELF / link)}
    return _text(process / file) if is_own else ""


def _mounts(places: re.Pattern[str]) -> list[str]:
    """Of the host, in the cluster's directories."""
    lines = [line.split(" ") for line in _text(_SELF / "mountinfo").splitlines()]
    # What is mounted, in its own file system, and where (proc_pid_mountinfo(5)).
    points = [fields[4] for fields in lines if any(map(places.search, fields[3:5]))]
    return [f"mount {point}: umount {point}" for point in points]


def _sockets(places: re.Pattern[str], processes: list[Path]) -> list[str]:
    """With a path in the cluster's directories, in any network namespace."""
    one_each = {_link(process / "ns/net"): process for process in [*processes, _SELF]}
    listed = "".join(_text(process / "net/unix") for process in one_each.values())
    paths = {line.split()[-1] for line in listed.splitlines() if places.search(line)}
    return [f"socket {path}: rm {path}" for path in sorted(paths)]


def _cgroups(layout: Layout) -> list[str]:
    tops = [
        Path(group, name)
        for tree in cgroups.hierarchies()
        for group, names, _ in os.walk(tree.root)
        for name in names
        if layout.node in name
    ]
    return [f"control group {path}: find {path} -depth -type d -delete" for path in tops]


def _files(layout: Layout) -> list[str]:
    own = [path for path in (layout.directory, layout.runtime) if path.exists()]
    shared = [path for place in _SHARED for path in Path(place).glob(f"*{layout.id}*")]
    return [f"{path}: rm -r {path}" for path in dict.fromkeys([*own, *shared])]


def _interfaces(marks: re.Pattern[str]) -> list[str]:
    """Of the host: by name, or by an address of the cluster's."""
    listing = json.loads(run(_program("ip"), "-json", "address"))
    names = [each["ifname"] for each in listing if marks.search(json.dumps(each))]
    return [f"interface {name}: ip link delete {name}" for name in names]


def _rules(marks: re.Pattern[str]) -> list[str]:
    lines = run(_program("nft"), "list", "ruleset").splitlines()
    found = [line.strip() for line in lines if marks.search(line)]
    return [f"firewall rule {line!r}: see `nft -a list ruleset`" for line in found]


def _program(name: str) -> str:
    """Look on PATH: set-up's record may have gone before the cluster."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or name


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
