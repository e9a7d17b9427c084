"""What the machine still has of a cluster, each thing with how to remove it."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clusters.embedded import cgroups, mounts
from clusters.embedded.layout import Layout

_INTERFACES = Path("/sys/class/net")
_PROC = Path("/proc")


def remains(layout: Layout) -> Mapping[str, list[str]]:
    """Return what is left, by its kind, whoever made it; firewall rules go with their namespace."""
    own = [path for path in (layout.directory, layout.runtime) if path.exists()]
    files = {"files": [f"{path}: rm -r {path}" for path in own]}
    if not sys.platform.startswith("linux"):
        return files  # no cluster ever ran here
    groups = [path for path in cgroups.groups(layout) if path.name == layout.node]
    namespaces = [layout.node] if layout.network_namespace.exists() else []
    interfaces = [layout.host_interface] if (_INTERFACES / layout.host_interface).exists() else []
    processes = sorted(cgroups.processes(layout) | _inside((layout.directory, layout.runtime)))
    return {
        "processes": [f"process {cgroups.named(pid)}: kill -9 {pid}" for pid in processes],
        "network namespaces": [
            f"network namespace {name}: ip netns delete {name}" for name in namespaces
        ],
        "mounts": [f"mount {point}: umount {point}" for point in mounts.inside(layout)],
        "control groups": [
            f"control group {path}: find {path} -depth -type d -delete" for path in groups
        ],
        "interfaces": [f"interface {name}: ip link delete {name}" for name in interfaces],
        **files,
    }


def _inside(directories: tuple[Path, ...]) -> set[int]:
    """Return the processes that run from these directories or work in them, whoever began them."""
    found = set()
    for process in _PROC.glob("[0-9]*"):
        for name in ("exe", "cwd", "root"):
            with suppress(OSError):
                place = Path(str((process / name).readlink()).removesuffix(" (deleted)"))
                if any(map(place.is_relative_to, directories)):
                    found.add(int(process.name))
    return found
