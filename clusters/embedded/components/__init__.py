"""The programs that make up the node, one module each. Nothing here touches the machine."""

from clusters.embedded.component import Component, Host
from clusters.embedded.components import (
    apiserver,
    containerd,
    controller_manager,
    etcd,
    kube_proxy,
    kubelet,
    provisioner,
    scheduler,
)
from clusters.embedded.layout import Layout


def components(layout: Layout, host: Host) -> list[Component]:
    """Every program of the node, in no order but that of `Component.calls_api`."""
    return [
        make.component(layout, host)
        for make in (
            etcd,
            apiserver,
            containerd,
            kubelet,
            controller_manager,
            scheduler,
            kube_proxy,
            provisioner,
        )
    ]
