"""What a program declares of a local cluster, whatever its tool."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes

from clusters.cluster import Cluster
from core import manifests
from images.resource import helper_images


class LocalCluster(pulumi.CustomResource):
    """A cluster of kind's or minikube's; its life is in `clusters.local.handler`.

    Args:
        token: The resource's type.
        inputs: What its handler takes; `name` is the cluster's.
    """

    kubeconfig: pulumi.Output[str]
    clusterId: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    """Tells it from another cluster of the same name."""

    def __init__(self, token: str, inputs: Mapping[str, Any]) -> None:
        outputs = dict.fromkeys(("kubeconfig", "clusterId", "adopted"))
        # The provider says so too; this way a preview of the first `up` knows it.
        opts = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(token, inputs["name"], {**inputs, **outputs}, opts)


def declare(kind: str, token: str, inputs: Mapping[str, Any], target: Mapping[str, Any]) -> Cluster:
    """Declare a local cluster, a provider for it, and the operator's images in it.

    Args:
        kind: Its key in `clusters.CLUSTERS`.
        token: The resource's type.
        inputs: What the resource's handler takes; `name` is the cluster's.
        target: How images get in.
    """
    made = LocalCluster(token, {**inputs, "owner": manifests.stack()})
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(made.kubeconfig)
    # The images' nodes are there once the cluster is.
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
        kind=kind,
        provider=provider,
        kubeconfig=kubeconfig,
        image_target=way_in,
        images=images,
    )
