"""The configuration that containerd, the kubelet and kube-proxy read from files. Pure."""

import json
from typing import Any

import yaml

from clusters.embedded import credentials
from clusters.embedded.host import KEPT_FREE, SYSTEM_RESERVED, Host, image_reference
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, PODS, Layout

_DISABLED = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.nri.v1.nri",
)
"""Found only where their file system is, or they keep files outside the cluster's directories."""


def containerd(layout: Layout, host: Host) -> str:
    """Return containerd's TOML of version 2, which 1.6 up to 2.x read.

    State and the shims' sockets are in /run/containerd, which is private to the node's mounts.
    """
    quote = json.dumps  # A JSON string is a TOML string.
    return f"""\
version = 2
root = {quote(str(layout.directory / "containerd"))}
state = "/run/containerd"
temp = {quote(str(layout.runtime / "tmp"))}
disabled_plugins = {quote(list(_DISABLED))}

[grpc]
address = {quote(str(layout.containerd_socket))}

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {quote(image_reference(host.tool, "pause"))}
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


def pod_network(layout: Layout) -> str:
    """Return the pods' network for CNI, in JSON: a point-to-point link each.

    No bridge: every packet between pods is routed by the node, so that services work
    without br_netfilter, which a sandboxed kernel may lack.
    """
    document = {
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
    return json.dumps(document, indent=2)


def kubelet(layout: Layout) -> str:
    """Return the KubeletConfiguration, in YAML."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **_access(layout),
        **_resources(layout),
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "clusterDomain": DNS_DOMAIN,
        "clusterDNS": [str(DNS_SERVICE)],
        # Nothing of the host's resolver: pods use coredns alone.
        "resolvConf": "",
        # The default is under /usr.
        "volumePluginDir": str(layout.config / "volume-plugins"),
        # kube-proxy writes nftables rules; iptables chains are not used.
        "makeIPTablesUtilChains": False,
        "nodeStatusMaxImages": -1,
    }
    return yaml.safe_dump(document)


def _access(layout: Layout) -> dict[str, Any]:
    return {
        "address": str(layout.node_address),
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "tlsCertFile": str(layout.certificate("kubelet")),
        "tlsPrivateKeyFile": str(layout.key("kubelet")),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
    }


def _resources(layout: Layout) -> dict[str, Any]:
    return {
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.node}",
        "failCgroupV1": False,
        # A job that forks without end takes no process from the machine's others.
        "podPidsLimit": 4096,
        "failSwapOn": False,
        # A lower score takes CAP_SYS_RESOURCE, which a container or a sandbox may lack.
        "oomScoreAdj": 0,
        "systemReserved": {"memory": SYSTEM_RESERVED},
        # Amounts, not shares: a large disk that is 90% full still has plenty.
        "evictionHard": {
            "memory.available": KEPT_FREE,
            "nodefs.available": "500Mi",
            "imagefs.available": "500Mi",
        },
        # Images are put in by hand and can't be pulled again, so none is ever collected.
        "imageGCHighThresholdPercent": 100,
    }


def kube_proxy(layout: Layout) -> str:
    """Return the KubeProxyConfiguration, in YAML."""
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(credentials.kubeconfig_path(layout, "kube-proxy"))},
        "hostnameOverride": layout.node,
        "clusterCIDR": str(PODS),
        "detectLocalMode": "ClusterCIDR",
        "bindAddress": str(layout.node_address),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # A new service works at once; the default gathers changes for a second.
        "nftables": {"minSyncPeriod": "100ms"},
        # A network namespace of its own may read the table's size and not set it.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        # A lower score takes CAP_SYS_RESOURCE, which a container or a sandbox may lack.
        "oomScoreAdj": 0,
    }
    return yaml.safe_dump(document)
