"""Check, without changes, that a cluster can run on this machine; locate tools and images."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from clusters.embedded import KIND, isolation
from clusters.embedded.layout import Layout
from core import toolchain
from core.problem import raised

SYSTEM_RESERVED = "512Mi"
"""Memory reserved for the node's programs outside pods."""
KEPT_FREE = "100Mi"
"""Available memory below which the kubelet evicts pods."""
COREDNS_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
_NEEDED_DISK = 2 * 2**30
"""Bytes of disk for stored and unpacked images, the database, logs and the eviction reserve."""

_TUN = Path("/dev/net/tun")
_NEEDED_INSTANCES = 25
"""inotify instances that must be free; the kubelet, controllers and API server use 21."""
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


def path(tool: str) -> str:
    """Return the path of a tool, or raise `core.toolchain.ToolMissing`."""
    return str(toolchain.path(tool))


def image_reference(name: str) -> str:
    """Return the reference under which pods use a tool's image, or raise `ToolMissing`."""
    return f"slipway.local/{name}:{toolchain.tool(name).version}"


def snapshotter(layout: Layout) -> str:
    """Return containerd's snapshotter: overlayfs, or native if the file system lacks support."""
    kind = filesystem(layout.directory.resolve())
    return "native" if kind in {"overlay", "nfs", "nfs4", "ecryptfs", "fuse"} else "overlayfs"


def filesystem(path: Path, mountinfo: bytes | None = None) -> str:
    """Return the type of the file system that contains a path, such as `fuse` for `fuse.sshfs`."""
    over = [each for each in isolation.mounts(mountinfo) if path.is_relative_to(each.point)]
    # The last mount at a point hides the ones before it. In a chroot there may be none.
    holding = max(reversed(over), key=lambda each: len(each.point.parts), default=None)
    return "" if holding is None else holding.kind.partition(".")[0]


def require(layout: Layout) -> None:
    """Raise `RuntimeError` with all reasons why the cluster can't run on this machine, if any."""
    if problems := list(_problems(layout)):
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise RuntimeError(f"the embedded cluster can't run on this machine:{listed}")


def _problems(layout: Layout) -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"it requires Linux, but this is {sys.platform}; use kind or minikube instead"
        return
    if os.geteuid() != 0:
        yield "it requires root, for namespaces and mounts; as another user, use kind or minikube"
        return
    more = (KIND.tool_of_setting["internet"],) if layout.internet else ()
    for name in (*KIND.tools, *more, "tcp-wait", "training-operator"):
        reason = raised(partial(toolchain.path, name), toolchain.ToolMissing)
        if reason is not None and name not in {"buildah", "mmdebstrap"}:  # only to build images
            yield reason
    if layout.internet and not _TUN.exists():
        yield f"{_TUN} is missing; run `modprobe tun`, or remove the setting `internet`"
    if not (layout.directory / "containerd").exists():  # an existing cluster has its resources
        yield from _shortages(layout)
    reason = raised(lambda: isolation.tracking(isolation.hierarchies()), RuntimeError)
    if reason is not None:
        yield reason


def _shortages(layout: Layout) -> Iterator[str]:
    existing = next(path for path in (layout.directory, *layout.directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < _NEEDED_DISK:
        yield (
            f"{existing} has {free / 2**30:.1f} GiB free, but {_NEEDED_DISK / 2**30:.0f} GiB are "
            "needed: free up space, or set XDG_STATE_HOME to a directory on another disk"
        )
    if (left := _free_instances()) < _NEEDED_INSTANCES:
        yield (
            f"fs.inotify.max_user_instances is {_INSTANCES.read_text().strip()}, with {left} "
            f"free, but {_NEEDED_INSTANCES} are needed: run `make down` for a cluster that you no "
            "longer need, or run `sysctl fs.inotify.max_user_instances=1024`"
        )


def _free_instances() -> int:
    """Return how many inotify instances this user can still create, up to the number needed."""
    library = ctypes.CDLL(None)
    created = [library.inotify_init() for _ in range(_NEEDED_INSTANCES)]
    for each in created:
        if each >= 0:
            os.close(each)
    return sum(each >= 0 for each in created)
