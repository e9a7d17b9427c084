"""What the machine still has of a cluster, each thing with how to remove it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from clusters.embedded import cgroups, mounts
from clusters.embedded.layout import Layout

_INTERFACES = Path("/sys/class/net")


def remains(layout: Layout) -> Mapping[str, list[str]]:
    """Return what is left, by its kind, whoever made it; firewall rules go with their namespace."""
    own = [path for path in (layout.directory, layout.runtime) if path.exists()]
    files = {"files": [f"{path}: rm -r {path}" for path in own]}
    if not sys.platform.startswith("linux"):
        return files  # no cluster ever ran here
    groups = [path for path in cgroups.groups(layout) if path.name == layout.node]
    namespaces = [layout.node] if layout.network_namespace.exists() else []
    interfaces = [layout.host_interface] if (_INTERFACES / layout.host_interface).exists() else []
    return {
        "processes": [f"process {pid}: kill -9 {pid}" for pid in sorted(cgroups.processes(layout))],
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
