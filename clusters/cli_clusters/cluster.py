"""What kind's and minikube's clusters have in common in a program: settings, limits, resources."""

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
    """A port of this machine that leads to one of a node: that of a Service's nodePort, say.

    Args:
        host: On this machine.
        node: On the node.
        protocol: What is spoken.
        address: Of this machine; only this machine reaches it unless it is another one.
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
    """A directory of this machine that the nodes have, too; a job mounts it as `hostPath`.

    Args:
        host: On this machine.
        node: On the nodes.
        read_only: Whether they may not write to it.
    """

    host: Directory
    node: Directory
    read_only: bool = False


def require(mounts: Mapping[str, Mount]) -> None:
    """Raise `pulumi.RunError` for mounts, by their keys, of what is missing: root would get it."""
    missing = [
        f"slipway:cluster.{key}.host: {mount.host} is not on this machine; make it, or name one "
        "that is there"
        for key, mount in mounts.items()
        if not Path(mount.host).exists()
    ]
    if missing:
        raise pulumi.RunError("\n".join(missing))


class _ToolCluster(pulumi.CustomResource):
    """A cluster of kind's or minikube's; its life is in `cli_cluster.py`."""

    kubeconfig: pulumi.Output[str]
    clusterId: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    """Identifies it among clusters of the same name."""


def declare(kind: str, token: str, inputs: Mapping[str, Any], target: Mapping[str, Any]) -> Cluster:
    """Declare a cluster by its handler's inputs, a provider, and images that get in by `target`."""
    outputs = dict.fromkeys(("kubeconfig", "clusterId", "adopted"))
    made = _ToolCluster(
        token,
        inputs["name"],
        {**inputs, "owner": manifests.stack(), **outputs},
        # The provider returns the same; this way a preview of the first `up` knows it.
        pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"]),
    )
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(made.kubeconfig)
    # The images' nodes exist once the cluster does.
    way_in = {**target, "after": made.id}
    images, resources = helper_images(way_in)
    provider = pulumi_kubernetes.Provider(
        inputs["name"],
        kubeconfig=kubeconfig,
        # Without it any change of the kubeconfig looks like another cluster. This one changes when
        # the cluster had gone and was made anew: then all that was in it is made anew, too.
        cluster_identifier=made.clusterId,
        # And what was in the one that had gone has gone with it.
        delete_unreachable=True,
        opts=pulumi.ResourceOptions(depends_on=resources),
    )
    return Cluster(
        kind=kind, provider=provider, kubeconfig=kubeconfig, image_target=way_in, images=images
    )
