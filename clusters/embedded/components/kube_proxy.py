"""kube-proxy: services, as nftables rules of the node's network namespace."""

from typing import Any

import yaml

from clusters.embedded import kubeconfig
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import PODS, Layout


def component(layout: Layout, host: Host) -> Component:
    """kube-proxy in nftables mode; it runs the `nft` program."""
    config = layout.config / "kube-proxy.yaml"
    return Component(
        name="kube-proxy",
        command=(host.path("kube-proxy"), *flags(config=config)),
        files={
            config: yaml.safe_dump(configuration(layout)),
            kubeconfig.path(layout, "kube-proxy"): kubeconfig.by_reference(layout, "kube-proxy"),
        },
        reads=(
            layout.certificate("ca"),
            layout.certificate("kube-proxy"),
            layout.key("kube-proxy"),
        ),
        calls_api=True,
    )


def configuration(layout: Layout) -> dict[str, Any]:
    """The KubeProxyConfiguration."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig.path(layout, "kube-proxy"))},
        "hostnameOverride": layout.node,
        "clusterCIDR": str(PODS),
        "detectLocalMode": "ClusterCIDR",
        "bindAddress": str(layout.node_address),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # A new service is there at once; the default gathers changes for a second.
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
