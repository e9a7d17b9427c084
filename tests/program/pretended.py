"""A kind of cluster that is only declared: its settings say what pool of GPUs it has."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes

from clusters.cluster import Cluster, Kind
from clusters.nodes import DEVICE_PLUGIN, GpuPool, Taint
from core.handler import Lazy


@dataclass(frozen=True)
class Settings:
    """What `slipway:cluster` may say."""

    name: str
    nodes: int = 0
    plugin: bool = True
    private: bool = False


def gpus(settings: Settings) -> GpuPool:
    return GpuPool(
        per_node=4,
        min_nodes=settings.nodes,
        max_nodes=8,
        labels={"pool": "gpu"},
        taints=(Taint("sku", "gpu"),),
        device_plugin=settings.plugin,
    )


def provision(settings: Settings) -> Cluster:
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret("a kubeconfig")
    provider = pulumi_kubernetes.Provider(settings.name, kubeconfig=kubeconfig)
    return Cluster(
        kind="pretended",
        provider=provider,
        kubeconfig=kubeconfig,
        image_target={"kind": "containerd", "address": "/run/it", "namespace": "k8s.io"},
        images={"training-operator": "operator:1", "tcp-wait": "wait:1"},
        gpus=gpus(settings),
        mirrors={DEVICE_PLUGIN: "registry.example.org/plugin@sha256:0"} if settings.private else {},
        pull_secret="a login" if settings.private else None,
    )


KIND = Kind(
    settings=Lazy("tests.program.pretended.Settings"),
    gpus=gpus,
    declare=provision,
    remains=lambda *_: {},
)
