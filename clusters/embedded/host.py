"""What this machine offers: looked at, never changed."""

from pathlib import Path

from clusters.embedded.component import Host
from clusters.embedded.layout import Layout
from core import toolchain

# Stacking directories needs a file system that allows it; these don't.
UNSTACKABLE = frozenset({"overlay", "nfs", "nfs4", "ecryptfs", "fuse"})


def examine(layout: Layout) -> Host:
    """What the cluster's configuration depends on.

    Raises:
        FileNotFoundError: no file system holds the directory.
    """
    kind = filesystem(layout.directory, Path("/proc/self/mountinfo").read_text())
    return Host(tool=toolchain.tool, snapshotter="native" if kind in UNSTACKABLE else "overlayfs")


def filesystem(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds a path, such as ext4 (proc_pid_mountinfo(5))."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        point = Path(mount.split(" ")[4])
        # Later lines are mounted over earlier ones.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), source.split(" ")[0]
    return found
