"""The common settings and resources of kind's and minikube's clusters in a Pulumi program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pulumi
import pulumi_kubernetes
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.cluster import Cluster
from core import manifests
from core.fields import CONFIG, Directory
from images.resource import helper_images

_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|\d?\d)"

ClusterName = Annotated[
    str,
    Field(
        # kind appends `-control-plane` to it, and a host's name has at most 64 characters.
        pattern="^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$",
        description="at most 50 of a-z, 0-9 and -, and no - first or last",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class PortMapping:
    """A port of this machine that is mapped to a node's port, such as a Service's nodePort.

    Args:
        host: Port on this machine.
        node: Port on the node.
        protocol: Transport protocol.
        address: Address of this machine; by default only this machine reaches it.
    """

    host: Port
    node: Port
    protocol: Literal["TCP", "UDP"] = "TCP"
    address: Annotated[
        str,
        Field(
            pattern=rf"^{_BYTE}(\.{_BYTE}){{3}}$",
            description="an IPv4 address of this machine, such as 127.0.0.1",
        ),
    ] = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Mount:
    """A directory of this machine that is mounted in the nodes; jobs mount it as `hostPath`.

    Args:
        host: Path on this machine.
        node: Path on the nodes.
        read_only: Whether the nodes can't write to it.
    """

    host: Directory
    node: Directory
    read_only: bool = False


def require(mounts: Mapping[str, Mount]) -> None:
    """Raise `RunError` for mounts of missing directories, which the tool would create as root."""
    missing = [
        f"slipway:cluster.{key}.host: {mount.host} is not on this machine; create it, or name an "
        "existing one"
        for key, mount in mounts.items()
        if not Path(mount.host).exists()
    ]
    if missing:
        raise pulumi.RunError("\n".join(missing))


class _ToolCluster(pulumi.CustomResource):
    """A cluster of kind or minikube; `cli_cluster.py` has its life cycle."""

    kubeconfig: pulumi.Output[str]
    clusterId: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    """Distinguishes clusters of the same name."""


def declare(kind: str, token: str, inputs: Mapping[str, Any], target: Mapping[str, Any]) -> Cluster:
    """Declare a cluster by its handler's inputs, its provider, and its images by `target`."""
    outputs = dict.fromkeys(("kubeconfig", "clusterId", "adopted"))
    created = _ToolCluster(
        token,
        inputs["name"],
        {**inputs, "owner": manifests.stack(), **outputs},
        # The provider returns the same, but a preview of the first `up` needs it here.
        pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"]),
    )
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(created.kubeconfig)
    # The images' nodes exist once the cluster does.
    way_in = {**target, "after": created.id}
    images, resources = helper_images(way_in)
    provider = pulumi_kubernetes.Provider(
        inputs["name"],
        kubeconfig=kubeconfig,
        # Without it any change of the kubeconfig looks like another cluster. It changes when the
        # cluster was deleted and created again, so that its contents are created again, too.
        cluster_identifier=created.clusterId,
        # The contents of the former cluster were deleted with it.
        delete_unreachable=True,
        opts=pulumi.ResourceOptions(depends_on=resources),
    )
    return Cluster(
        kind=kind, provider=provider, kubeconfig=kubeconfig, image_target=way_in, images=images
    )
