"""What is left of a cluster, asked of the machine and not of what was made.

Whatever bears the cluster's name, lies in its directories or has its addresses is found, whoever
made it, however it got there and wherever it is: so what removal has forgotten is found, too.
"""

import json
import os
import shutil
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path

from clusters.embedded import cgroups
from clusters.embedded.command import CommandFailed, run
from clusters.embedded.layout import Layout
from clusters.embedded.traces import Traces

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


def remains(layout: Layout) -> Mapping[str, list[str]]:
    """What there is of each kind of thing, every one with how to remove it.

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
    """Found as a person would find it: set-up's record may have gone before the cluster."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or name
