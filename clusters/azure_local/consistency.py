"""Settings of an Azure Local cluster that are each allowed but not together."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from clusters.azure import possible
from clusters.azure.possible import of as _of
from clusters.azure_local import names, sources
from clusters.azure_local.nodes import LogicalNetwork
from clusters.azure_local.sizes import GPUS
from core.problem import Contradiction
from core.text import quote

if TYPE_CHECKING:
    from clusters.azure_local.settings import Settings

_POOL = ("logicalNetwork.poolStart", "logicalNetwork.poolEnd")
_MOST_NODES = 200
"""Of one cluster: https://learn.microsoft.com/azure/aks/aksarc/scale-requirements"""


def contradictions(settings: Settings) -> list[Contradiction]:
    """Return everything that does not go together, by the key to change."""
    rules = (_place, _access, _disconnected, sources.contradictions, _gpu, _network, _room)
    found = [each for rule in rules for each in rule(settings)]
    return [*found, *possible.tags(names.tags(settings))]


def _place(settings: Settings) -> Iterator[Contradiction]:
    # A control plane of one's own has a region of its own.
    if settings.disconnected is None:
        yield from possible.region(settings.location, "disconnected")
    yield from possible.without_gpus("system", settings.system.size)
    yield from possible.without_gpus("controlPlane", settings.control_plane.size)


def _access(settings: Settings) -> Iterator[Contradiction]:
    if settings.disconnected is not None:
        return
    if settings.entra is None:
        yield _of(
            ("entra",),
            "is missing; it has adminGroups, with a group that whoever runs pulumi up is in: "
            "az ad group show --group NAME --query id",
            "disconnected",
        )
    else:
        yield from possible.repeated(("entra", "adminGroups"), settings.entra.admin_groups)


def _disconnected(settings: Settings) -> Iterator[Contradiction]:
    """Yield what Azure Local can't do without the internet.

    https://learn.microsoft.com/azure/azure-local/manage/disconnected-operations-aks (limitations)
    """
    if settings.disconnected is None:
        return
    if settings.gpu is not None:
        text = "goes with no disconnected: there Azure Local has no GPUs for AKS; leave one out"
        yield _of(("gpu",), text, "disconnected")
    if settings.entra is not None:
        text = "goes with no disconnected: Entra can't be reached from there; leave one out"
        yield _of(("entra",), text, "disconnected")
    if not settings.admin_kubeconfig:
        yield _of(
            ("adminKubeconfig",),
            "has to be true with disconnected: without Entra the cluster's own administrator is "
            "the only one who gets in",
            "disconnected",
        )
    network = settings.logical_network
    if isinstance(network, LogicalNetwork):
        for index, server in enumerate(network.dns_servers):
            if not IPv4Address(server).is_private:
                place = ("logicalNetwork", "dnsServers", index)
                text = f"{quote(server)} is a public address; with disconnected none can be reached"
                yield _of(place, text, "disconnected")


def _gpu(settings: Settings) -> Iterator[Contradiction]:
    gpu = settings.gpu
    if gpu is None:
        return
    yield from possible.kept_off(gpu.taints)
    known = GPUS.get(gpu.size)
    if unusable := [*possible.with_gpus(gpu.size)]:
        yield from unusable
    elif known is None and gpu.gpus_per_node is None:
        yield _of(
            ("gpu", "gpusPerNode"),
            f"is missing; how many GPUs a node of size {quote(gpu.size)} has is not known. Of "
            f"these it is: {', '.join(GPUS)}",
            "gpu.size",
        )
    elif known is not None and gpu.gpus_per_node not in {None, known}:
        text = f"{gpu.gpus_per_node} is not allowed; a node of size {gpu.size} has {known}"
        yield _of(("gpu", "gpusPerNode"), text, "gpu.size")
    if gpu.max_nodes < gpu.min_nodes:
        text = f"{gpu.max_nodes} is not allowed; it takes at least minNodes, {gpu.min_nodes}"
        yield _of(("gpu", "maxNodes"), text, "gpu.minNodes")


def _network(settings: Settings) -> Iterator[Contradiction]:
    """Yield addresses that can't be where they are.

    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements
    """
    network = settings.logical_network
    if not isinstance(network, LogicalNetwork):
        return
    yield from possible.repeated(("logicalNetwork", "dnsServers"), network.dns_servers)
    prefix = IPv4Network(network.prefix)
    first, last = IPv4Address(network.pool_start), IPv4Address(network.pool_end)
    for key, text in (
        ("gateway", network.gateway),
        ("poolStart", network.pool_start),
        ("poolEnd", network.pool_end),
    ):
        if IPv4Address(text) not in prefix:
            why = f"{quote(text)} is not in prefix, {prefix}"
            yield _of(("logicalNetwork", key), why, "logicalNetwork.prefix")
    if last < first:
        text = f"{quote(network.pool_end)} is before poolStart, {quote(network.pool_start)}"
        yield _of(("logicalNetwork", "poolEnd"), text, "logicalNetwork.poolStart")
    elif first <= IPv4Address(network.gateway) <= last:
        text = f"{quote(network.gateway)} is one of the pool's, which machines may be given"
        yield _of(("logicalNetwork", "gateway"), text, *_POOL)
    if prefix.overlaps(IPv4Network(settings.pods)):
        text = f"{quote(settings.pods)} overlaps the prefix of logicalNetwork, {prefix}"
        yield _of(("pods",), text, "logicalNetwork.prefix")
    if settings.control_plane.address is not None:
        address = IPv4Address(settings.control_plane.address)
        place = ("controlPlane", "address")
        if address not in prefix:
            text = f'"{address}" is not in the prefix of logicalNetwork, {prefix}'
            yield _of(place, text, "logicalNetwork.prefix")
        elif first <= address <= last:
            text = f'"{address}" is one of the pool of logicalNetwork, which machines may be given'
            yield _of(place, text, *_POOL)


def _room(settings: Settings) -> Iterator[Contradiction]:
    """Yield more machines than the service, or the network's pool of addresses, has room for."""
    workers = settings.system.nodes + (0 if settings.gpu is None else settings.gpu.max_nodes)
    if workers > _MOST_NODES:
        text = f"{workers} nodes in all, while a cluster has at most {_MOST_NODES}"
        yield _of(("gpu", "maxNodes"), text, "system.nodes")
    network = settings.logical_network
    if not isinstance(network, LogicalNetwork):
        return
    there = int(IPv4Address(network.pool_end)) - int(IPv4Address(network.pool_start)) + 1
    # Each machine has one for good, and an upgrade makes one more before it removes an old one.
    # The API server's is one of the pool's unless it is said.
    vip = 1 if settings.control_plane.address is None else 0
    needed = settings.control_plane.nodes + workers + 1 + vip
    if 0 < there < needed:
        yield _of(
            ("logicalNetwork", "poolEnd"),
            f"{quote(network.pool_end)} leaves {there} addresses, while the machines and an "
            f"upgrade need {needed}",
            "logicalNetwork.poolStart",
            "controlPlane",
            "system.nodes",
            "gpu.maxNodes",
        )
