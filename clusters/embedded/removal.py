"""Ends what runs, and looks for what is left."""

import shutil

from clusters.embedded import cgroups, mounts, network
from clusters.embedded.component import Host
from clusters.embedded.layout import RUNTIME_ROOT, Layout


def halt(layout: Layout, host: Host) -> None:
    """End everything that runs, and keep the data; succeeds when nothing does.

    The mounts end with the processes that see them. Killing is safe: etcd and containerd write
    their data so that a power cut costs nothing.

    Raises:
        RuntimeError: something else is mounted inside the cluster's directories.
    """
    cgroups.kill(layout)
    cgroups.remove(layout)
    network.remove(layout, host)
    if mounted := mounts.leftovers(layout):
        # Removing what is under a mount would remove somebody's data.
        raise RuntimeError(f"not made by the cluster, so unmount it first: {', '.join(mounted)}")
    if layout.runtime.exists():
        shutil.rmtree(layout.runtime)
    if RUNTIME_ROOT.exists() and not any(RUNTIME_ROOT.iterdir()):
        RUNTIME_ROOT.rmdir()


def leftovers(layout: Layout, host: Host) -> list[str]:
    """What is still there of the cluster, in words."""
    directories = [path for path in (layout.directory, layout.runtime) if path.exists()]
    return [
        *cgroups.leftovers(layout),
        *network.leftovers(layout, host),
        *mounts.leftovers(layout),
        *[f"directory {path}" for path in directories],
    ]
