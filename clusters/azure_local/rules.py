"""What AKS on Azure Local refuses in the settings, though each value is allowed by itself."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from clusters import azure
from clusters.azure import contradiction
from clusters.reach import Reach
from core.problem import Contradiction, quote

if TYPE_CHECKING:
    from clusters.azure_local.settings import LogicalNetwork, Settings

_POOL = ("logicalNetwork.poolStart", "logicalNetwork.poolEnd")
_MOST_NODES = 200
"""Of one cluster: https://learn.microsoft.com/azure/aks/aksarc/scale-requirements"""


def contradictions(settings: Settings) -> list[Contradiction]:
    """Return everything that is wrong, by the key to change."""
    found = [
        *azure.without_gpus("system", settings.system.size),
        *azure.without_gpus("controlPlane", settings.control_plane.size),
        *(_connected(settings) if settings.disconnected is None else _disconnected(settings)),
        *azure.tags(settings),
        *azure.reserved(("name",), settings.resource_name),
    ]
    if settings.gpu is not None:
        found += azure.gpu_nodes(settings.gpu)
    workers = settings.system.nodes + (0 if settings.gpu is None else settings.gpu.max_nodes)
    if workers > _MOST_NODES:
        text = f"{workers} nodes in all, while a cluster has at most {_MOST_NODES}"
        found.append(contradiction(("gpu", "maxNodes"), text, "system.nodes"))
    if not isinstance(settings.logical_network, str):
        found += _network(settings, settings.logical_network)
        found += _room(settings, settings.logical_network, workers)
    return found


def _connected(settings: Settings) -> Iterator[Contradiction]:
    yield from azure.region(settings.location, "disconnected")
    if settings.entra is None:
        yield contradiction(
            ("entra",),
            "is missing; it has adminGroups, with a group that whoever runs pulumi up is in: "
            "az ad group show --group NAME --query id",
            "disconnected",
        )
    else:
        yield from azure.repeated(("entra", "adminGroups"), settings.entra.admin_groups)


def _disconnected(settings: Settings) -> Iterator[Contradiction]:
    """Yield what Azure Local can't do without the internet.

    https://learn.microsoft.com/azure/azure-local/manage/disconnected-operations-aks (limitations)
    """
    if settings.gpu is not None:
        text = "goes with no disconnected: there Azure Local has no GPUs for AKS; leave one out"
        yield contradiction(("gpu",), text, "disconnected")
    if settings.entra is not None:
        text = "goes with no disconnected: Entra can't be reached from there; leave one out"
        yield contradiction(("entra",), text, "disconnected")
    if not settings.admin_kubeconfig:
        yield contradiction(
            ("adminKubeconfig",),
            "has to be true with disconnected: without Entra the cluster's own administrator is "
            "the only one who gets in",
            "disconnected",
        )
    network = settings.logical_network
    for index, server in enumerate(() if isinstance(network, str) else network.dns_servers):
        if not IPv4Address(server).is_private:
            text = f"{quote(server)} is a public address; with disconnected none can be reached"
            yield contradiction(("logicalNetwork", "dnsServers", index), text, "disconnected")
    # The one registry that is reached without the internet.
    registry = settings.registry
    reached = Reach(registry.server, registry.mirrors)
    unreached = f"is not in the registry, {reached.host}, the only one reached"
    for public, private in registry.mirrors.items():
        if private.partition("/")[0] != reached.host:
            place = ("registry", "mirrors", public)
            text = f"{quote(private)} {unreached}"
            yield contradiction(place, text, "disconnected", "registry.server")
    for key, image in settings.images.prebuilt.items():
        if not reached.has(image):
            text = f"{quote(image)} {unreached}"
            yield contradiction(("images", key), text, "disconnected", "registry")


def _network(settings: Settings, network: LogicalNetwork) -> Iterator[Contradiction]:
    """Yield addresses that can't be where they are.

    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements
    """
    yield from azure.repeated(("logicalNetwork", "dnsServers"), network.dns_servers)
    prefix = IPv4Network(network.prefix)
    first, last = IPv4Address(network.pool_start), IPv4Address(network.pool_end)
    for key, text in (
        ("gateway", network.gateway),
        ("poolStart", network.pool_start),
        ("poolEnd", network.pool_end),
    ):
        if IPv4Address(text) not in prefix:
            why = f"{quote(text)} is not in prefix, {prefix}"
            yield contradiction(("logicalNetwork", key), why, "logicalNetwork.prefix")
    if last < first:
        text = f"{quote(network.pool_end)} is before poolStart, {quote(network.pool_start)}"
        yield contradiction(("logicalNetwork", "poolEnd"), text, "logicalNetwork.poolStart")
    elif first <= IPv4Address(network.gateway) <= last:
        text = f"{quote(network.gateway)} is one of the pool's, which machines may be given"
        yield contradiction(("logicalNetwork", "gateway"), text, *_POOL)
    if prefix.overlaps(IPv4Network(settings.pods)):
        text = f"{quote(settings.pods)} overlaps the prefix of logicalNetwork, {prefix}"
        yield contradiction(("pods",), text, "logicalNetwork.prefix")
    if settings.control_plane.address is not None:
        address, place = IPv4Address(settings.control_plane.address), ("controlPlane", "address")
        if address not in prefix:
            text = f'"{address}" is not in the prefix of logicalNetwork, {prefix}'
            yield contradiction(place, text, "logicalNetwork.prefix")
        elif first <= address <= last:
            text = f'"{address}" is one of the pool of logicalNetwork, which machines may be given'
            yield contradiction(place, text, *_POOL)


def _room(settings: Settings, network: LogicalNetwork, workers: int) -> Iterator[Contradiction]:
    """Yield a pool of addresses that is too small for the machines."""
    count = int(IPv4Address(network.pool_end)) - int(IPv4Address(network.pool_start)) + 1
    # Each machine keeps its own, and an upgrade makes one more before it removes an old one.
    # The API server's is one of the pool's unless it is set.
    vip = 1 if settings.control_plane.address is None else 0
    needed = settings.control_plane.nodes + workers + 1 + vip
    if 0 < count < needed:
        yield contradiction(
            ("logicalNetwork", "poolEnd"),
            f"{quote(network.pool_end)} leaves {count} addresses, while the machines and an "
            f"upgrade need {needed}",
            "logicalNetwork.poolStart",
            "controlPlane",
            "system.nodes",
            "gpu.maxNodes",
        )
