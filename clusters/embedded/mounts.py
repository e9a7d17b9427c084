"""What the node sees elsewhere than the host does, in a mount namespace of its own.

Some programs have paths built in, and the kubelet sets parameters of the machine's kernel.
Here such a path leads to the cluster's own directory, and such a parameter to a plain file that
already has what the kubelet needs. All mounts of the node, the containers' too, are in that
namespace, so they are gone with its last process.

`supervisor.start` runs this module inside the node's namespaces: it becomes supervisord there.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from clusters.embedded import cgroups
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


def inside(layout: Layout, mountinfo: str | None = None) -> list[str]:
    """Return the host's mount points, by /proc/self/mountinfo, in the cluster's directories."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    # The kernel writes a space, tab, newline and backslash of a path as octal escapes.
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in text.splitlines()]
    ours = (layout.directory, layout.runtime)
    return [point for point in points if any(Path(point).is_relative_to(top) for top in ours)]


def main() -> None:
    """Join the control group, mount what is private, and give way to supervisord."""
    layout = Layout(Path(sys.argv[1]))
    cgroups.join(layout)
    establish(layout)
    configuration = str(layout.config / "supervisord.conf")
    os.execv(  # noqa: S606 (no shell is needed)
        sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", configuration]
    )


if __name__ == "__main__":
    main()
