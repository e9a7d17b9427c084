"""What kind's and minikube's clusters have in common in a program: settings, limits, resources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pulumi
import pulumi_kubernetes
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from clusters.cluster import Cluster
from core import manifests
from core.fields import CONFIG, Cpu, Directory, Memory
from core.problem import Contradiction, Problem
from images.resource import helper_images

_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_EVERYWHERE = "0.0.0.0"  # noqa: S104  # compared with, not listened on


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text) or any(int(part) > 255 for part in text.split(".")):
        raise ValueError("an IPv4 address of this machine, such as 127.0.0.1")
    return text


ClusterName = Annotated[
    str,
    Field(
        # kind appends `-control-plane` to it, and a host's name has at most 64 characters.
        pattern="^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$",
        description="at most 50 of a-z, 0-9 and -, and no - first or last",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Address = Annotated[
    str,
    AfterValidator(_address),
    Field(description="an IPv4 address of this machine, such as 127.0.0.1"),
]


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
    address: Address = "127.0.0.1"


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


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Reserved:
    """What each node keeps free of pods.

    Args:
        cpu: Cores.
        memory: With its unit.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None


def clashes(ports: Sequence[PortMapping]) -> Iterator[Contradiction]:
    """Yield each port of this machine that is given away twice."""
    for index, port in enumerate(ports):
        for other in ports[:index]:
            overlap = port.address == other.address or _EVERYWHERE in {port.address, other.address}
            if (port.host, port.protocol) == (other.host, other.protocol) and overlap:
                text = f"{port.host}/{port.protocol} of this machine is given away twice"
                path = ("ports", index, "host")
                yield Contradiction(path, f"{text}; every port has its own", frozenset({"ports"}))
                break


def overlaid(mounts: Sequence[Mount]) -> Iterator[Contradiction]:
    """Yield each mount that would hide another one."""
    for index, mount in enumerate(mounts):
        hidden = next((i for i, other in enumerate(mounts[:index]) if other.node == mount.node), -1)
        if hidden >= 0:
            text = f"{mount.node} is where mounts[{hidden}] is already; every mount has its own"
            yield Contradiction(("mounts", index, "node"), text, frozenset({"mounts"}))


def cores() -> int:
    """Return how many cores this machine has."""
    return os.cpu_count() or 1


def memory() -> int:
    """Return how many bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def unmountable(key: str, mount: Mount) -> Iterator[Problem]:
    """Yield a mount whose source is missing: an engine would make an empty directory, root's.

    Args:
        key: Where the settings have it.
        mount: What they have there.
    """
    if not Path(mount.host).exists():
        text = f"{mount.host} is not on this machine; make it, or name one that is there"
        yield Problem(f"{key}.host", text)


def require(problems: Iterable[Problem]) -> None:
    """Let nothing be declared that this machine has not got the means for.

    Raises:
        pulumi.RunError: with all of the problems.
    """
    if found := list(problems):
        raise pulumi.RunError("\n".join(map(str, found)))


class LocalCluster(pulumi.CustomResource):
    """A cluster of kind's or minikube's; its life is in `clusters.local.handler`.

    Args:
        token: The resource's type.
        inputs: What its handler takes; `name` is the cluster's.
    """

    kubeconfig: pulumi.Output[str]
    clusterId: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    """Identifies it among clusters of the same name."""

    def __init__(self, token: str, inputs: Mapping[str, Any]) -> None:
        outputs = dict.fromkeys(("kubeconfig", "clusterId", "adopted"))
        # The provider returns the same; this way a preview of the first `up` knows it.
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
        kind=kind,
        provider=provider,
        kubeconfig=kubeconfig,
        image_target=way_in,
        images=images,
    )
