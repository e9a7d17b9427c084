"""Whether this machine can run the cluster, asked before anything is changed."""

import os
import re
import shutil
import sys

from clusters.embedded import cgroups
from clusters.embedded.layout import Layout
from core import toolchain

TOOLS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "cni-plugins",
    "nft",
    "ip",
    "nsenter",
    "setpriv",
    "pause",
    "coredns",
    "tcp-wait",
    "training-operator",
)
_NOT_FOR_SUPERVISORD = re.compile(r"%|\s[#;]")
"""It expands some settings twice, so that escaping does not help, and begins comments inside."""
NEEDED = 2 * 2**30
"""Bytes: images stored and unpacked, the database, logs, and what eviction keeps free."""


class Unsuitable(RuntimeError):
    """This machine can't run the cluster as it is; names everything that is in the way."""


def require(layout: Layout) -> None:
    """Make sure, before anything is changed, that the cluster can run here.

    Raises:
        Unsuitable: with every reason why not.
    """
    if problems := list(_problems(layout)):
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise Unsuitable(f"the embedded cluster can't run here:{listed}")


def _problems(layout: Layout) -> list[str]:
    if not sys.platform.startswith("linux"):
        return [f"it needs Linux, this is {sys.platform}; use kind or minikube instead"]
    if os.geteuid() != 0:
        return ["it needs root, for namespaces and mounts; as another user, use kind or minikube"]
    problems = []
    for name in TOOLS:
        try:
            toolchain.path(name)
        except toolchain.ToolMissing as error:
            problems.append(str(error))
    if (found := _NOT_FOR_SUPERVISORD.search(str(layout.directory))) is not None:
        problems.append(
            f'{layout.directory} has "{found[0]}" in it, which supervisord takes for a part of its '
            "own configuration: point XDG_STATE_HOME to a directory without it"
        )
    existing = next(path for path in (layout.directory, *layout.directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    # A cluster that is there already has most of it.
    if free < NEEDED and not (layout.directory / "containerd").exists():
        problems.append(
            f"{existing} has {free / 2**30:.1f} GiB free, it needs {NEEDED / 2**30:.0f} GiB: "
            "make room, or point XDG_STATE_HOME to another disk"
        )
    try:
        cgroups.tracking(cgroups.hierarchies())
    except RuntimeError as error:
        problems.append(str(error))
    return problems
