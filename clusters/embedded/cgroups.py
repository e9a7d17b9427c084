"""The node's control group: what belongs to the cluster, as the kernel knows it.

Every process of the cluster is in `/slipway-<id>`: the components in `system`, the pods in what the
kubelet makes beside it. A process can't leave by forking, changing its name or losing its parent,
so this is how the cluster's processes are found and ended.

Version 1 has one tree for each controller, version 2 one tree for all; some machines mount both.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clusters.embedded.layout import Layout


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup tree."""

    root: Path
    controllers: frozenset[str]
    version: int


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """Every cgroup tree of this machine, as /proc/self/mounts or a text like it has them."""
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    found = []
    for line in text.splitlines():
        _, root, kind, options, *_ = line.split(" ")
        if kind == "cgroup":
            found.append(Hierarchy(Path(root), frozenset(options.split(",")), 1))
        elif kind == "cgroup2":
            found.append(Hierarchy(Path(root), frozenset(), 2))
    return found


def tracking(trees: Iterable[Hierarchy]) -> Hierarchy:
    """The tree in which the components are put: version 1's `pids`, or version 2 where it is alone.

    Raises `RuntimeError` where the machine has neither.
    """
    suitable = [tree for tree in trees if tree.version == 2 or "pids" in tree.controllers]
    if not suitable:
        raise RuntimeError(
            "no cgroup tree that can hold the cluster: /proc/self/mounts names neither version 2 "
            "nor version 1's pids controller. In a container, share the host's cgroups with it."
        )
    return min(suitable, key=lambda tree: tree.version)


def ensure(layout: Layout) -> None:
    """Make the cluster's groups in every tree; the kubelet wants its root to exist in each."""
    for tree in hierarchies():
        group = tree.root / layout.node
        group.mkdir(exist_ok=True)
        if tree.version == 2:
            _delegate(tree.root)
            _delegate(group)
    _system(layout).mkdir(exist_ok=True)


def join(layout: Layout) -> None:
    """Put this process, and all that it will start, in the cluster's group."""
    (_system(layout) / "cgroup.procs").write_text("0")


def groups(layout: Layout) -> list[Path]:
    """The cluster's groups in every tree, parents first."""
    tops = [tree.root / layout.node for tree in hierarchies()]
    return [Path(group) for top in tops for group, _, _ in os.walk(top)]


def processes(layout: Layout) -> set[int]:
    """All processes of the cluster by id, the pods' among them."""
    found: set[int] = set()
    for group in groups(layout):
        with suppress(OSError):  # removed while we looked
            found.update(map(int, (group / "cgroup.procs").read_text().split()))
    return found


def named(pid: int) -> str:
    """Return a process as messages have it, with its program's name: `123 (etcd)`."""
    try:
        return f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return str(pid)  # it has just ended


def _system(layout: Layout) -> Path:
    """The components' group, in the tree that tracks them."""
    return tracking(hierarchies()).root / layout.node / "system"


def _delegate(group: Path) -> None:
    """Let a version 2 group's children use every controller that it has itself.

    The kernel refuses that of a group with processes, unless it is the real root.
    """
    control = group / "cgroup.subtree_control"
    given = control.read_text().split()
    wanted = (group / "cgroup.controllers").read_text().split()
    for controller in [each for each in wanted if each not in given]:
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            raise RuntimeError(
                f"{control} does not take +{controller}: {error.strerror}. "
                "In a container, share the host's control groups with it (--cgroupns=host)."
            ) from error
