"""Its settings: the pool of GPUs that it has."""

from collections.abc import Mapping
from decimal import Decimal

import pulumi
import pulumi_kubernetes
from pydantic.dataclasses import dataclass

from clusters.cluster import Cluster
from clusters.nodes import DEVICE_PLUGIN, Capacity, GpuPool, Taint
from core.fields import CONFIG
from images.resource import helper_images


@dataclass(frozen=True, config=CONFIG)
class Settings:
    """The keys of `slipway:cluster`."""

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


def capacity(_settings: Settings) -> Capacity:
    return Capacity(cpu=Decimal(64), memory=2**40, gpus=32, nodes=8)


def provision(settings: Settings) -> Cluster:
    made = pulumi.CustomResource("slipway:clusters:Pretended", settings.name, {"kubeconfig": None})
    target = {"kind": "pretended", "shelf": settings.name, "after": made.id}
    images, needs = helper_images(target)
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret("a kubeconfig")
    opts = pulumi.ResourceOptions(depends_on=[made, *needs])
    return Cluster(
        kind="pretended",
        provider=pulumi_kubernetes.Provider(settings.name, kubeconfig=kubeconfig, opts=opts),
        kubeconfig=kubeconfig,
        image_target=target,
        images=images,
        gpus=gpus(settings),
        mirrors={DEVICE_PLUGIN: "registry.example.org/plugin@sha256:0"} if settings.private else {},
        pull_secret="a login" if settings.private else None,
    )


def remains(settings: Settings, stack: str) -> Mapping[str, list[str]]:
    return {"pretended clusters": [f"{settings.name} of {stack}: remove it"]}
