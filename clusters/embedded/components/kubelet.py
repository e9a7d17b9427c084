"""kubelet."""

from typing import Any

import yaml

from clusters.embedded import kubeconfig
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, Layout
from clusters.embedded.machine import KEPT_FREE, SYSTEM_RESERVED


def component(layout: Layout, host: Host) -> Component:
    """The node's agent. Its root is the default one, which is private to the node's mounts."""
    config = layout.config / "kubelet.yaml"
    credentials = (
        layout.certificate("ca"),
        layout.certificate("kubelet"),
        layout.key("kubelet"),
        layout.certificate("kubelet-client"),
        layout.key("kubelet-client"),
    )
    return Component(
        name="kubelet",
        command=(
            host.path("kubelet"),
            *flags(
                config=config,
                kubeconfig=kubeconfig.path(layout, "kubelet-client"),
                hostname_override=layout.node,
                node_ip=layout.node_address,
            ),
        ),
        files={
            config: yaml.safe_dump(configuration(layout)),
            kubeconfig.path(layout, "kubelet-client"): kubeconfig.by_reference(
                layout, "kubelet-client"
            ),
        },
        reads=credentials,
        calls_api=True,
    )


def configuration(layout: Layout) -> dict[str, Any]:
    """The KubeletConfiguration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **_access(layout),
        **_resources(layout),
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "clusterDomain": DNS_DOMAIN,
        "clusterDNS": [str(DNS_SERVICE)],
        # Nothing of the host's resolver: pods ask coredns alone.
        "resolvConf": "",
        # The default is under /usr.
        "volumePluginDir": str(layout.config / "volume-plugins"),
        # kube-proxy writes nftables rules; there are no iptables chains to keep.
        "makeIPTablesUtilChains": False,
        "nodeStatusMaxImages": -1,
    }


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
