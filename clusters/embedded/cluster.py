"""The embedded cluster in a Pulumi program."""

from pathlib import Path
from typing import Annotated

import pulumi
import pulumi_kubernetes
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters import owner
from clusters.capacity import Capacity, left, machine_cores, machine_memory
from clusters.cluster import Cluster, Remains
from clusters.embedded import remains as search
from clusters.embedded.host import COREDNS_REQUESTS, KEPT_FREE, SYSTEM_RESERVED, image_reference
from clusters.embedded.layout import Layout
from clusters.operator import releases
from core import manifests, tokens
from core.fields import CONFIG, size
from core.paths import state_dir


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class EmbeddedSettings:
    """The settings of `slipway:cluster` for the kind `embedded`.

    Args:
        name: Tells several clusters of one user apart; the stack's name by default.
    """

    name: Annotated[
        str,
        Field(
            pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            description="a DNS label: at most 63 of a-z, 0-9 and -, and no - first or last",
        ),
    ]


class Embedded(pulumi.CustomResource):
    """A one-node Kubernetes cluster on this machine; its life is in `embedded_cluster.py`."""

    kubeconfig: pulumi.Output[str]
    containerdAddress: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    containerdNamespace: pulumi.Output[str]  # noqa: N815


def capacity(settings: EmbeddedSettings) -> Capacity:  # noqa: ARG001 (every kind's shape)
    """Return this machine's cores and memory, less what the kubelet and other pods have of it."""
    memory = machine_memory() - size(SYSTEM_RESERVED) - size(KEPT_FREE)
    return left(machine_cores(), memory, (COREDNS_REQUESTS, releases.REQUESTS))


def provision(settings: EmbeddedSettings) -> Cluster:
    """Declare the cluster and its provider."""
    directory = _directory(settings)
    inputs = {"name": settings.name, "directory": str(directory), "owner": manifests.stack()}
    embedded = Embedded(
        tokens.EMBEDDED,
        settings.name,
        {**inputs, **dict.fromkeys(Embedded.__annotations__)},
        # The provider returns the same; this way a preview of the first `up` knows it.
        pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"]),
    )
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(embedded.kubeconfig)
    provider = pulumi_kubernetes.Provider(
        settings.name,
        kubeconfig=kubeconfig,
        # Without it any change of the kubeconfig looks like another cluster, and everything in it
        # would be replaced.
        cluster_identifier=Layout(directory).node,
    )
    return Cluster(
        kind="embedded",
        provider=provider,
        kubeconfig=kubeconfig,
        image_target={
            "kind": "containerd",
            "address": embedded.containerdAddress,
            "namespace": embedded.containerdNamespace,
        },
        images={name: image_reference(name) for name in ("training-operator", "tcp-wait")},
    )


def remains(settings: EmbeddedSettings, stack: str) -> Remains:
    """What this machine has of the cluster, unless it is another stack's."""
    directory = _directory(settings)
    return (
        {} if owner.stack_of(directory) not in {None, stack} else search.remains(Layout(directory))
    )


def _directory(settings: EmbeddedSettings) -> Path:
    return state_dir() / "clusters" / settings.name
