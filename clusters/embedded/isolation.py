"""What keeps the node apart from its host: its control group, and its mount namespace.

Every process of the cluster is in the control group `/slipway-<id>`, which it can't leave: so they
are found and ended. Some machines mount version 1, a tree for each controller, and version 2, too.

Some programs have paths built in, and the kubelet sets parameters of the machine's kernel. In the
node's mount namespace such a path leads to the cluster's own directory, and such a parameter to a
plain file that already has what the kubelet needs. All mounts are gone with its last process.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import NamedTuple

from clusters.embedded.layout import DNS_SERVICE, Layout
from core import files
from core.manifests import read
from core.process import run

_MOUNTS = read(Path(__file__).with_name("isolation.yaml"))
KERNEL: Mapping[str, str] = _MOUNTS["kernel"]
"""The kernel's parameters as the node sees them, by their paths below /proc/sys."""
# One quick try: health tries again, and a lookup must never hang on a dead server.
RESOLVER = f"nameserver {DNS_SERVICE}\noptions timeout:2 attempts:1\n"


class Mount(NamedTuple):
    """A mounted file system; the options of a cgroup tree of version 1 name its controllers."""

    point: Path
    kind: str
    options: frozenset[str]


def hierarchies(mountinfo: bytes | None = None) -> list[Mount]:
    """Every cgroup tree of this machine; the text is as for `mounts`."""
    return [each for each in mounts(mountinfo) if each.kind in {"cgroup", "cgroup2"}]


def tracking(trees: Iterable[Mount]) -> Mount:
    """The tree for the components: version 1's `pids`, else version 2; `RuntimeError` without."""
    suitable = [tree for tree in trees if tree.kind == "cgroup2" or "pids" in tree.options]
    if not suitable:
        raise RuntimeError(
            "no cgroup tree that can hold the cluster: /proc/self/mountinfo has neither version 2 "
            "nor version 1's pids controller. In a container, share the host's cgroups with it."
        )
    return min(suitable, key=lambda tree: tree.kind)


def abandoned(groups: str, trees: Iterable[Mount]) -> list[str]:
    """Return the controllers of trees that are nowhere mounted, of a text as in cgroups(7).

    Nodes of kind and minikube leave such trees of version 1. With one, containerd 1.6 watches no
    container's memory: of a pod that was killed for it there would only be the exit code 137.
    """
    mounted = {option for tree in trees for option in tree.options}
    used = [line.split(":")[1] for line in groups.splitlines()]
    return [each for each in used if each and mounted.isdisjoint(each.split(","))]


def ensure(layout: Layout) -> None:
    """Make the cluster's groups in every tree; the kubelet wants its root to exist in each."""
    for controllers in abandoned(Path("/proc/self/cgroup").read_text(), hierarchies()):
        point = Path("/sys/fs/cgroup", controllers)
        point.mkdir(exist_ok=True)
        run("mount", "-t", "cgroup", "-o", controllers, "cgroup", str(point))
    for tree in hierarchies():
        group = tree.point / layout.node
        group.mkdir(exist_ok=True)
        if tree.kind == "cgroup2":
            _delegate(tree.point)
            _delegate(group)
    for group in _system(layout):
        group.mkdir(exist_ok=True)


def join(layout: Layout) -> None:
    """Put this process, and all that it will start, in the cluster's group."""
    for group in _system(layout):
        (group / "cgroup.procs").write_text("0")


def groups(layout: Layout) -> list[Path]:
    """The cluster's groups in every tree, parents first."""
    tops = [tree.point / layout.node for tree in hierarchies()]
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


def _system(layout: Layout) -> list[Path]:
    """The components' group, in the tree that tracks them, and in version 2 beside it."""
    # There they would stay in the group of the command that started them (scripts/guard.py).
    trees = hierarchies()
    used = [tree for tree in trees if tree == tracking(trees) or tree.kind == "cgroup2"]
    return [tree.point / layout.node / "system" for tree in used]


def _delegate(group: Path) -> None:
    """Let a version 2 group's children use every controller that it has itself."""
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


def directories(layout: Layout) -> Mapping[Path, Path]:
    """Return directories as the node sees them, and what is behind them on the host."""
    sources: Mapping[str, str] = _MOUNTS["directories"]
    values = vars(layout)
    return {Path(path): Path(Template(text).substitute(values)) for path, text in sources.items()}


def establish(layout: Layout) -> None:
    """Mount all of it, inside a new mount namespace, where the host sees none of it."""
    # Containers may share mounts with the node (mountPropagation), never with the host.
    run("mount", "--make-rshared", "/")
    for target, source in directories(layout).items():
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", str(source), str(target))
    kernel = layout.config / "kernel"
    kernel.mkdir(parents=True, exist_ok=True)
    contents = {"/etc/resolv.conf": (layout.config / "resolv.conf", RESOLVER)} | {
        f"/proc/sys/{name}": (kernel / name.replace("/", "."), f"{value}\n")
        for name, value in KERNEL.items()
    }
    for name, (source, text) in contents.items():
        files.write(source, text, mode=0o644)
        run("mount", "--bind", str(source), name)


def mounts(mountinfo: bytes | None = None) -> Iterator[Mount]:
    """Yield each mount that /proc/self/mountinfo has, or a text like it."""
    text = Path("/proc/self/mountinfo").read_bytes() if mountinfo is None else mountinfo
    for line in text.strip(b"\n").split(b"\n"):
        mount, _, source = line.partition(b" - ")
        # The kernel writes a space, tab, newline and backslash of a path as octal escapes, all
        # other bytes as they are.
        point = re.sub(
            rb"\\([0-3][0-7]{2})", lambda each: bytes([int(each[1], 8)]), mount.split(b" ")[4]
        )
        kind, *_, options = source.decode(errors="replace").split(" ")
        yield Mount(Path(os.fsdecode(point)), kind, frozenset(options.split(",")))


def inside(layout: Layout, mountinfo: bytes | None = None) -> list[str]:
    """Return the host's mount points in the cluster's directories, in a form to be printed."""
    ours = (layout.directory.resolve(), layout.runtime)
    return [
        os.fsencode(each.point).decode(errors="backslashreplace")
        for each in mounts(mountinfo)
        if any(map(each.point.is_relative_to, ours))
    ]


def main() -> None:
    """Join the control group, mount what is private, and become supervisord."""
    layout = Layout(Path(sys.argv[1]))
    join(layout)
    establish(layout)
    configuration = str(layout.config / "supervisord.conf")
    os.execv(  # noqa: S606 (no shell is needed)
        sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", configuration]
    )


if __name__ == "__main__":
    main()
