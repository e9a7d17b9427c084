"""The embedded cluster in a Pulumi program, and what it may leave behind on this machine."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import pulumi
from pulumi import ResourceOptions
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters import operator, owner
from clusters.cluster import Cluster, Remains
from clusters.embedded import OWN, isolation
from clusters.embedded.host import COREDNS_REQUESTS, KEPT_FREE, SYSTEM_RESERVED, image_reference
from clusters.embedded.layout import Layout
from clusters.nodes import Capacity, of_machine
from core import manifests, tokens
from core.declare import provider_of
from core.fields import CONFIG

_INTERFACES = Path("/sys/class/net")


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class EmbeddedSettings:
    """The settings in `slipway:cluster` for the kind `embedded`.

    Args:
        name: The cluster's name, which must be unique per user; by default the stack's name.
        internet: Let jobs reach the internet, but not the machine's other networks.
    """

    name: Annotated[
        str,
        Field(
            pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            description="a DNS label: at most 63 characters from a-z, 0-9 and -, not starting or "
            "ending with -",
        ),
    ]
    internet: bool = False


class Embedded(pulumi.CustomResource):
    """A one-node Kubernetes cluster on this machine, managed by `embedded_cluster.py`."""

    kubeconfig: pulumi.Output[str]
    containerdAddress: pulumi.Output[str]  # noqa: N815 (as the provider calls it)
    containerdNamespace: pulumi.Output[str]  # noqa: N815


def capacity(settings: EmbeddedSettings) -> Capacity:  # noqa: ARG001 (every kind's shape)
    """Return this machine's cores and memory, minus what the system and other pods need."""
    kept = [{"cpu": "0", "memory": each} for each in (SYSTEM_RESERVED, KEPT_FREE)]
    return of_machine().beside([*kept, COREDNS_REQUESTS, operator.REQUESTS])


def provision(settings: EmbeddedSettings) -> Cluster:
    """Declare the cluster and its provider."""
    directory = OWN.directory(settings.name)
    inputs = {"name": settings.name, "directory": str(directory), "owner": manifests.stack()}
    more = {"internet": True} if settings.internet else {}  # older stacks lack the input
    embedded = Embedded(
        tokens.EMBEDDED,
        settings.name,
        {**inputs, **more, **dict.fromkeys(Embedded.__annotations__)},
        # The provider reports both, but not before the first `up`, and not with `--replace`.
        ResourceOptions(additional_secret_outputs=["kubeconfig"], delete_before_replace=True),
    )
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(embedded.kubeconfig)
    return Cluster(
        kind="embedded",
        provider=provider_of(settings.name, kubeconfig, Layout(directory).node, [embedded]),
        resource=embedded,
        kubeconfig=kubeconfig,
        image_target={
            "kind": "containerd",
            "address": embedded.containerdAddress,
            "namespace": embedded.containerdNamespace,
        },
        images={name: image_reference(name) for name in ("training-operator", "tcp-wait")},
    )


def remains(settings: EmbeddedSettings, stack: str) -> Remains:
    """Return what the cluster left on this machine, unless it belongs to another stack."""
    directory = OWN.directory(settings.name)
    is_anothers = owner.stack_of(directory) not in {None, stack}
    return {} if is_anothers else left_on_machine(Layout(directory))


def left_on_machine(layout: Layout) -> Mapping[str, list[str]]:
    """Return everything a cluster left behind, keyed by type, each item with its removal command.

    This includes anything that another stack with the same cluster name created.
    """
    own = [path for path in (layout.directory, layout.runtime) if path.exists()]
    files = {"files": [f"{path}: rm -r {path}" for path in own]}
    if not sys.platform.startswith("linux"):
        return files  # only Linux runs such a cluster
    groups = [path for path in isolation.groups(layout) if path.name == layout.node]
    networks = [path.name for path in (layout.network_namespace, layout.outside) if path.exists()]
    interfaces = [layout.host_interface] if (_INTERFACES / layout.host_interface).exists() else []
    processes = sorted(isolation.processes(layout) | _inside((layout.directory, layout.runtime)))
    return {
        "processes": [f"process {isolation.named(pid)}: kill -9 {pid}" for pid in processes],
        "network namespaces": [
            f"network namespace {name}: ip netns delete {name}" for name in networks
        ],
        "mounts": [f"mount {point}: umount {point}" for point in isolation.inside(layout)],
        "control groups": [
            f"control group {path}: find {path} -depth -type d -delete" for path in groups
        ],
        "interfaces": [f"interface {name}: ip link delete {name}" for name in interfaces],
        **files,
    }


def _inside(directories: tuple[Path, ...]) -> set[int]:
    """Return the IDs of processes whose program, working directory or root is in `directories`."""
    pids, own = set(), Path("/proc/self/ns/mnt").readlink()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # In this mount namespace, a process that works there may be a user's shell.
            is_outside = (process / "ns" / "mnt").readlink() == own
            for name in ("exe", "root") if is_outside else ("exe", "cwd", "root"):
                place = Path(str((process / name).readlink()).removesuffix(" (deleted)"))
                if any(map(place.is_relative_to, directories)):
                    pids.add(int(process.name))
    return pids
