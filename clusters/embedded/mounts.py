"""What the node sees elsewhere than the host does, in a mount namespace of its own.

Some programs have paths built in, and the kubelet sets parameters of the machine's kernel.
Here such a path leads to the cluster's own directory, and such a parameter to a plain file that
already has what the kubelet needs. All mounts of the node, the containers' too, are in that
namespace, so they are gone with its last process.
"""

from collections.abc import Mapping
from pathlib import Path

from clusters.embedded.layout import DNS_SERVICE, Layout
from core import files
from core.process import run

# What the kubelet would set (pkg/kubelet/cm, setupKernelTunables) and refuses to start without.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# One quick try: health tries again, and a lookup must never hang on a dead server.
RESOLVER = f"nameserver {DNS_SERVICE}\noptions timeout:2 attempts:1\n"


def directories(layout: Layout) -> Mapping[Path, Path]:
    """Directories as the node sees them, and what is behind them on the host."""
    return {
        Path("/run/containerd"): layout.containerd_state,
        Path("/var/lib/cni"): layout.runtime / "cni",
        Path("/var/lib/kubelet"): layout.directory / "kubelet",
        Path("/var/log/containers"): layout.logs / "containers",
        Path("/var/log/pods"): layout.logs / "pods",
    }


def contents(layout: Layout) -> Mapping[Path, tuple[Path, str]]:
    """Files as the node sees them, with their sources on the host and their content."""
    kernel = layout.config / "kernel"
    return {Path("/etc/resolv.conf"): (layout.config / "resolv.conf", RESOLVER)} | {
        Path("/proc/sys") / name: (kernel / name.replace("/", "."), f"{value}\n")
        for name, value in KERNEL.items()
    }


def establish(layout: Layout) -> None:
    """Mount all of it. To be called inside a new mount namespace, where the host sees none of it.

    Raises:
        CommandFailed: `mount` refuses.
    """
    # Containers may share mounts with the node (mountPropagation), never with the host.
    run("mount", "--make-rshared", "/")
    for target, source in directories(layout).items():
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", str(source), str(target))
    for target, (source, text) in contents(layout).items():
        source.parent.mkdir(parents=True, exist_ok=True)
        files.write(source, text, mode=0o644)
        run("mount", "--bind", str(source), str(target))


def inside(layout: Layout, mountinfo: str | None = None) -> list[str]:
    """Return the host's mount points inside the cluster's directories.

    Args:
        layout: The cluster.
        mountinfo: The text of /proc/self/mountinfo; read when left out.
    """
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    # The kernel writes a space, tab, newline and backslash of a path as octal escapes.
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in text.splitlines()]
    ours = (layout.directory, layout.runtime)
    return [point for point in points if any(Path(point).is_relative_to(top) for top in ours)]
