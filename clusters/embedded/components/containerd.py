"""containerd: images and containers."""

import json
from typing import Any

from clusters.embedded import images
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import PODS, Layout

# Found only where their file system is, or they keep files outside the cluster's directories.
DISABLED = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.nri.v1.nri",
)


def component(layout: Layout, host: Host) -> Component:
    """The container runtime with its CRI plugin; runc and its shim are found on PATH."""
    config = layout.config / "containerd.toml"
    return Component(
        name="containerd",
        command=(host.path("containerd"), *flags(config=config)),
        files={
            config: configuration(layout, host),
            layout.cni / "10-slipway.conflist": json.dumps(network(layout), indent=2),
        },
    )


def configuration(layout: Layout, host: Host) -> str:
    """Configuration of version 2, which 1.6 up to 2.x read.

    State and the shims' sockets are in /run/containerd, which is private to the node's mounts.
    """
    quote = json.dumps  # A JSON string is a TOML string.
    return f"""\
version = 2
root = {quote(str(layout.directory / "containerd"))}
state = "/run/containerd"
temp = {quote(str(layout.runtime / "tmp"))}
disabled_plugins = {quote(list(DISABLED))}

[grpc]
address = {quote(str(layout.containerd_socket))}

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {quote(images.reference(host.tool, "pause"))}
# A negative OOM score takes CAP_SYS_RESOURCE, which a container or a sandbox may lack.
restrict_oom_score_adj = true
# /run/netns belongs to the host.
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = {quote(host.snapshotter)}

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = {quote(host.path("runc"))}
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {quote(host.path("cni-plugins"))}
conf_dir = {quote(str(layout.cni))}
"""


def network(layout: Layout) -> dict[str, Any]:
    """The pods' network: a point-to-point link each.

    No bridge: every packet between pods is routed by the node, so that services work
    without br_netfilter, which a sandboxed kernel may lack.
    """
    return {
        "cniVersion": "0.4.0",
        "name": layout.node,
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(PODS)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # Leases end with the pods, and every pod's network ends with the node.
                    "dataDir": str(layout.runtime / "leases"),
                },
            },
        ],
    }
