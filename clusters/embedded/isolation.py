"""Isolate the node from its host, with a cgroup and a mount namespace.

All of the cluster's processes are in the cgroup `/slipway-<id>`, which they can't leave, so they
can be found and killed. Some machines mount cgroup v1 hierarchies, one per controller, besides v2.

Some programs use fixed paths, and the kubelet sets kernel parameters. In the node's mount
namespace, these paths lead to the cluster's directory, and these parameters to plain files with
the values that the kubelet needs. The mounts disappear with the last process.
"""

import os
import re
import resource
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
"""The values of kernel parameters that the node sees, keyed by paths below /proc/sys."""
# One short attempt: health checks retry, and a lookup must not hang on a dead server.
RESOLVER = f"nameserver {DNS_SERVICE}\noptions timeout:2 attempts:1\n"
_OPEN_FILES = 65536
"""The limit for each process; ranks with many data loaders or connections need more than 1024."""


class Mount(NamedTuple):
    """A mounted file system; the options of a cgroup v1 hierarchy include its controllers."""

    point: Path
    kind: str
    options: frozenset[str]


def hierarchies(mountinfo: bytes | None = None) -> list[Mount]:
    """Return all cgroup hierarchies on this machine; `mountinfo` is passed to `mounts`."""
    return [each for each in mounts(mountinfo) if each.kind in {"cgroup", "cgroup2"}]


def tracking(trees: Iterable[Mount]) -> Mount:
    """Return the hierarchy that tracks the components: v1's `pids`, or else v2.

    Raises `RuntimeError` if there is neither.
    """
    suitable = [tree for tree in trees if tree.kind == "cgroup2" or "pids" in tree.options]
    if not suitable:
        raise RuntimeError(
            "no usable cgroup hierarchy: /proc/self/mountinfo lists neither cgroup v2 nor cgroup "
            "v1's pids controller. If this is a container, share the host's cgroups with it."
        )
    return min(suitable, key=lambda tree: tree.kind)


def abandoned(groups: str, trees: Iterable[Mount]) -> list[str]:
    """Return the controllers whose hierarchies are in use but not mounted.

    `groups` is the content of /proc/PID/cgroup (cgroups(7)). kind and minikube nodes leave such v1
    hierarchies behind. While one exists, containerd 1.6 does not monitor containers' memory, so an
    out-of-memory kill would appear only as exit code 137.
    """
    mounted = {option for tree in trees for option in tree.options}
    used = [line.split(":")[1] for line in groups.splitlines()]
    return [each for each in used if each and mounted.isdisjoint(each.split(","))]


def ensure(layout: Layout) -> None:
    """Create the cluster's cgroups in all hierarchies: the kubelet needs a root cgroup in each."""
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
        with suppress(OSError):  # v1's have no attributes
            # Else systemd-oomd might prefer this group, and kill all components at once.
            os.setxattr(group, "user.oomd_avoid", b"1")


def join(layout: Layout) -> None:
    """Move this process, and so its future children, to the cluster's cgroup."""
    for group in _system(layout):
        (group / "cgroup.procs").write_text("0")


def groups(layout: Layout) -> list[Path]:
    """Return the cluster's cgroups in all hierarchies, parents first."""
    tops = [tree.point / layout.node for tree in hierarchies()]
    return [Path(group) for top in tops for group, _, _ in os.walk(top)]


def processes(layout: Layout) -> set[int]:
    """Return the IDs of all of the cluster's processes, including those in pods."""
    pids: set[int] = set()
    for group in groups(layout):
        with suppress(OSError):  # removed since
            pids.update(map(int, (group / "cgroup.procs").read_text().split()))
    return pids


def named(pid: int) -> str:
    """Format a process for messages, with its program's name: `123 (etcd)`."""
    try:
        return f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return str(pid)  # it has just exited


def _system(layout: Layout) -> list[Path]:
    """Return the components' cgroups, in the hierarchy that tracks them and in v2."""
    # Without one in v2, they would stay in the cgroup of the starting command (scripts/guard.py).
    trees = hierarchies()
    used = [tree for tree in trees if tree == tracking(trees) or tree.kind == "cgroup2"]
    return [tree.point / layout.node / "system" for tree in used]


def _delegate(group: Path) -> None:
    """Enable all of a v2 cgroup's controllers for its children."""
    control = group / "cgroup.subtree_control"
    enabled = control.read_text().split()
    available = (group / "cgroup.controllers").read_text().split()
    for controller in [each for each in available if each not in enabled]:
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            raise RuntimeError(
                f"{control} does not accept +{controller}: {error.strerror}. "
                "If this is a container, share the host's cgroups with it (--cgroupns=host)."
            ) from error


def directories(layout: Layout) -> Mapping[Path, Path]:
    """Map each directory that is mounted in the node to its source on the host."""
    sources: Mapping[str, str] = _MOUNTS["directories"]
    values = vars(layout)
    return {Path(path): Path(Template(text).substitute(values)) for path, text in sources.items()}


def establish(layout: Layout) -> None:
    """Mount all directories and kernel parameters in the current, private mount namespace."""
    # Containers may share mounts with the node (mountPropagation), but never with the host.
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
    """Yield each mount in /proc/self/mountinfo, or in `mountinfo`, which has the same format."""
    text = Path("/proc/self/mountinfo").read_bytes() if mountinfo is None else mountinfo
    for line in text.strip(b"\n").split(b"\n"):
        mount, _, source = line.partition(b" - ")
        # The kernel escapes a space, tab, newline and backslash in a path as octal numbers.
        point = re.sub(
            rb"\\([0-3][0-7]{2})", lambda each: bytes([int(each[1], 8)]), mount.split(b" ")[4]
        )
        kind, *_, options = source.decode(errors="replace").split(" ")
        yield Mount(Path(os.fsdecode(point)), kind, frozenset(options.split(",")))


def inside(layout: Layout, mountinfo: bytes | None = None) -> list[str]:
    """Return the host's mount points inside the cluster's directories, in printable form."""
    ours = (layout.directory.resolve(), layout.runtime)
    return [
        os.fsencode(each.point).decode(errors="backslashreplace")
        for each in mounts(mountinfo)
        if any(map(each.point.is_relative_to, ours))
    ]


def main() -> None:
    """Join the cgroup, mount the private directories, set a limit, and become supervisord."""
    layout = Layout(Path(sys.argv[1]))
    join(layout)
    establish(layout)
    # Pods inherit it, so it must not depend on the shell. Not every root can raise the hard limit.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _OPEN_FILES), hard))
    configuration = str(layout.config / "supervisord.conf")
    os.execv(  # noqa: S606 (no shell is needed)
        sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", configuration]
    )


if __name__ == "__main__":
    main()
