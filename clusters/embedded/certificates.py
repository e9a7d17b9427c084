"""What every certificate of the cluster says: whose it is, what it is for, who signs it."""

from dataclasses import dataclass
from typing import Literal

from clusters.embedded.layout import API_SERVICE, DNS_DOMAIN, Layout

Usage = Literal["client", "server", "both"]

AUTHORITIES = {
    "ca": "slipway-ca",
    "etcd-ca": "slipway-etcd-ca",
    "front-proxy-ca": "slipway-front-proxy-ca",
}
"""File name and common name of each authority."""
LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Request:
    """What one certificate says. To Kubernetes the common name is the user."""

    name: str
    common_name: str
    usage: Usage
    authority: str = "ca"
    organization: str | None = None
    """To Kubernetes, the user's group."""
    hosts: tuple[str, ...] = ()


def requests(layout: Layout) -> list[Request]:
    """Every certificate that the cluster needs, beside its authorities."""
    node, address = layout.node, str(layout.node_address)
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    api_hosts = (*api_names, f"{api_names[-1]}.{DNS_DOMAIN}", node, str(API_SERVICE), address)
    return [
        Request("etcd", "etcd", "both", "etcd-ca", hosts=LOOPBACK),
        Request("apiserver-etcd-client", "kube-apiserver", "client", "etcd-ca"),
        Request("apiserver", "kube-apiserver", "server", hosts=api_hosts),
        Request("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "client"),
        Request("front-proxy-client", "front-proxy-client", "client", "front-proxy-ca"),
        # Both serve, too. Without a certificate each would make RSA keys first, at every start.
        Request("controller-manager", "system:kube-controller-manager", "both", hosts=LOOPBACK),
        Request("scheduler", "system:kube-scheduler", "both", hosts=LOOPBACK),
        Request("kube-proxy", "system:kube-proxy", "client"),
        Request("kubelet-client", f"system:node:{node}", "client", organization="system:nodes"),
        Request("kubelet", f"system:node:{node}", "server", hosts=(node, address)),
        Request("provisioner", "slipway:volume-provisioner", "client"),
        # Makes the bindings that everybody else needs, so it can't depend on one itself.
        Request("bootstrap", "slipway:bootstrap", "client", organization="system:masters"),
        Request("admin", "slipway:admin", "client", organization="slipway:admins"),
    ]
