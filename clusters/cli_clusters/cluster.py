"""The settings and Pulumi resources shared by kind and minikube clusters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pulumi
from pulumi import ResourceOptions
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.cluster import Cluster
from core import manifests
from core.declare import provider_of
from core.fields import CONFIG, Directory, texts
from images.resource import helper_images

_text = texts(__file__)
ClusterName = Annotated[str, _text("name")]
Port = Annotated[int, Field(ge=1, le=65535)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class PortMapping:
    """A port on this machine that is mapped to a port on a node, such as a Service's nodePort.

    Args:
        host: Port on this machine.
        node: Port on the node.
        protocol: Transport protocol.
        address: Address on this machine; by default only this machine can reach it.
    """

    host: Port
    node: Port
    protocol: Literal["TCP", "UDP"] = "TCP"
    address: Annotated[str, _text("address")] = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Mount:
    """A directory on this machine that is mounted in the nodes; jobs mount it as `hostPath`.

    Args:
        host: Path on this machine.
        node: Path on the nodes.
        read_only: Prevent nodes from writing to the directory.
    """

    host: Directory
    node: Directory
    read_only: bool = False


def require(mounts: Mapping[str, Mount]) -> None:
    """Raise `RunError` if a mount's directory is missing; the tool would create it as root."""
    missing = [
        f"slipway:cluster.{key}.host: {mount.host} does not exist on this machine; create it, or "
        "set an existing directory"
        for key, mount in mounts.items()
        if not Path(mount.host).exists()
    ]
    if missing:
        raise pulumi.RunError("\n".join(missing))


class _ToolCluster(pulumi.CustomResource):
    """A kind or minikube cluster; `cli_cluster.py` implements its life cycle."""

    kubeconfig: pulumi.Output[str]
    clusterId: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    """Distinguishes clusters with the same name."""


def declare(kind: str, token: str, inputs: Mapping[str, Any], target: Mapping[str, Any]) -> Cluster:
    """Declare a cluster, its provider and its images; `inputs` are for the cluster's handler."""
    outputs = dict.fromkeys(("kubeconfig", "clusterId", "adopted"))
    created = _ToolCluster(
        token,
        inputs["name"],
        {**inputs, "owner": manifests.stack(), **outputs},
        # The provider reports both, but not before the first `up`, and not with `--replace`.
        ResourceOptions(additional_secret_outputs=["kubeconfig"], delete_before_replace=True),
    )
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(created.kubeconfig)
    # The nodes that images are loaded onto exist once the cluster does.
    way_in = {**target, "after": created.id}
    images, resources = helper_images(way_in)
    # The ID changes when the cluster is recreated, so that its contents are recreated, too.
    name, identifier, after = inputs["name"], created.clusterId, [created, *resources]
    # A former cluster's contents were deleted with it.
    provider = provider_of(name, kubeconfig, identifier, after, delete_unreachable=True)
    return Cluster(kind, provider, kubeconfig, way_in, images, resource=created)
