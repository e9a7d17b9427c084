"""The settings and resources for a cluster that kind creates (https://kind.sigs.k8s.io)."""

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters import operator
from clusters.cli_clusters import cluster as machine
from clusters.cli_clusters.cluster import ClusterName, Mount, PortMapping
from clusters.cluster import Cluster
from clusters.nodes import Capacity, of_machine
from core import tokens
from core.fields import CONFIG, Cpu, Image, Memory, texts
from core.manifests import read

_REQUESTS = read(Path(__file__).with_name("requests.yaml"))
ControlPlanes = Annotated[Literal[1, 3, 5, 7, 9], texts(__file__)("controlPlanes")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Reserved:
    """Resources to reserve on each node, so that pods can't use them.

    Args:
        cpu: Number of cores.
        memory: Amount of memory, with a unit.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class KindSettings:
    """The settings in `slipway:cluster` for the kind `kind`.

    Args:
        name: The cluster's name in kind; by default the stack's name, or slipway-kind for the
            stack `kind`.
        control_planes: Number of control plane nodes.
        workers: Number of worker nodes, which run the jobs; if 0, the control plane nodes do.
        image: Image for the nodes, which determines the Kubernetes version; by default kind's
            default image.
        reserved: Resources on each node that pods can't use.
        ports: Ports on this machine that are mapped to ports on the first node.
        mounts: Directories on this machine that are mounted in all nodes.
        adopt: Use an existing cluster with this name. It is never deleted.
    """

    name: ClusterName
    control_planes: ControlPlanes = 1
    workers: Annotated[int, Field(ge=0, le=50)] = 1
    image: Image | None = None
    reserved: Reserved | None = None
    ports: tuple[PortMapping, ...] = ()
    mounts: tuple[Mount, ...] = ()
    adopt: bool = False


def capacity(settings: KindSettings) -> Capacity:
    """Return the nodes' capacity for jobs: what is neither reserved nor requested by other pods."""
    kept = {"cpu": "0", "memory": "0Mi"} | _kept(settings)
    requests = [_REQUESTS["every_node"], operator.REQUESTS, kept]
    if not settings.workers:
        requests += [_REQUESTS["control_plane"], _REQUESTS["dns"]]
    return of_machine(settings.workers or settings.control_planes).beside(requests)


def config(settings: KindSettings) -> dict[str, Any]:
    """Return kind's configuration (https://kind.sigs.k8s.io/docs/user/configuration/)."""
    every: dict[str, Any] = {} if settings.image is None else {"image": settings.image}
    if settings.mounts:
        every["extraMounts"] = [
            {"hostPath": each.host, "containerPath": each.node, "readOnly": each.read_only}
            for each in settings.mounts
        ]
    roles = ["control-plane"] * settings.control_planes + ["worker"] * settings.workers
    nodes = [{"role": role, **every} for role in roles]
    if settings.ports:
        nodes[0]["extraPortMappings"] = [
            {
                "containerPort": each.node,
                "hostPort": each.host,
                "listenAddress": each.address,
                "protocol": each.protocol,
            }
            for each in settings.ports
        ]
    document = {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}
    if reserved := _kept(settings):
        kubelet = {"kind": "KubeletConfiguration", "systemReserved": reserved}
        document["kubeadmConfigPatches"] = [yaml.safe_dump(kubelet, sort_keys=False)]
    return document


def provision(settings: KindSettings) -> Cluster:
    """Declare the cluster, its provider, and the operator's images on its nodes."""
    if not settings.adopt:  # An existing cluster keeps its own mounts.
        machine.require({f"mounts[{index}]": each for index, each in enumerate(settings.mounts)})
    inputs = {"name": settings.name, "config": config(settings), "adopt": settings.adopt}
    return machine.declare("kind", tokens.KIND, inputs, {"kind": "kind", "cluster": settings.name})


def _kept(settings: KindSettings) -> dict[str, str]:
    """Return the amounts reserved on each node, keyed by Kubernetes resource names."""
    amounts = vars(settings.reserved or Reserved())
    return {name: amount for name, amount in amounts.items() if amount is not None}
