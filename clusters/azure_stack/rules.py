"""What AKS on Azure Local refuses in the settings, though each value is allowed by itself."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from clusters import azure
from core.problem import Contradiction, contradiction, quote

if TYPE_CHECKING:
    from clusters.azure_stack.settings import LogicalNetwork, Settings

_POOL = ("logicalNetwork.poolStart", "logicalNetwork.poolEnd")


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """Yield everything that is wrong, by the key to change."""
    gpu, network = settings.gpu, settings.logical_network
    yield from azure.without_gpus("system", settings.system.size)
    yield from azure.without_gpus("controlPlane", settings.control_plane.size)
    if settings.disconnected is None:
        yield from _connected(settings)
    else:
        yield from _disconnected(settings)
        yield from _unreached(settings)
    if gpu is not None:
        yield from azure.gpu_nodes(gpu)
    if not isinstance(network, str):
        yield from _network(settings, network)
        yield from _room(settings, network)


def _connected(settings: Settings) -> Iterator[Contradiction]:
    if settings.entra is None:
        yield contradiction(
            ("entra",),
            "is missing; it has adminGroups, with a group that whoever runs pulumi up is in: "
            "az ad group show --group NAME --query id",
            "disconnected",
        )


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
        text = (
            "has to be true with disconnected: without Entra the cluster's own administrator is "
            "the only one who gets in"
        )
        yield contradiction(("adminKubeconfig",), text, "disconnected")
    network = settings.logical_network
    for index, server in enumerate(() if isinstance(network, str) else network.dns_servers):
        if not IPv4Address(server).is_private:
            text = f"{quote(server)} is a public address; with disconnected none can be reached"
            yield contradiction(("logicalNetwork", "dnsServers", index), text, "disconnected")


def _unreached(settings: Settings) -> Iterator[Contradiction]:
    """Yield images that are not in the one registry that is reached without the internet."""
    reached = settings.registry
    unreached = f"is not in the registry, {reached.host}, the only one reached"
    for public, private in reached.mirrors.items():
        if private.partition("/")[0] != reached.host:
            place, about = ("registry", "mirrors", public), ("disconnected", "registry.server")
            yield contradiction(place, f"{quote(private)} {unreached}", *about)
    for key, image in settings.images.prebuilt.items():
        if not reached.has(image):
            about = ("disconnected", "registry")
            yield contradiction(("images", key), f"{quote(image)} {unreached}", *about)


def _network(settings: Settings, network: LogicalNetwork) -> Iterator[Contradiction]:
    """Yield addresses that can't be where they are.

    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements
    """
    prefix = IPv4Network(network.prefix)
    first, last = IPv4Address(network.pool_start), IPv4Address(network.pool_end)
    gateway, address = IPv4Address(network.gateway), settings.control_plane.address
    for key, place in (("gateway", gateway), ("poolStart", first), ("poolEnd", last)):
        if place not in prefix:
            text = f'"{place}" is not in prefix, {prefix}'
            yield contradiction(("logicalNetwork", key), text, "logicalNetwork.prefix")
    if last < first:
        text = f'"{last}" is before poolStart, "{first}"'
        yield contradiction(("logicalNetwork", "poolEnd"), text, "logicalNetwork.poolStart")
    elif first <= gateway <= last:
        text = f'"{gateway}" is one of the pool\'s, which machines may be given'
        yield contradiction(("logicalNetwork", "gateway"), text, *_POOL)
    if prefix.overlaps(IPv4Network(settings.pods)):
        text = f"{quote(settings.pods)} overlaps the prefix of logicalNetwork, {prefix}"
        yield contradiction(("pods",), text, "logicalNetwork.prefix")
    if address is not None and IPv4Address(address) not in prefix:
        text = f"{quote(address)} is not in the prefix of logicalNetwork, {prefix}"
        yield contradiction(("controlPlane", "address"), text, "logicalNetwork.prefix")
    elif address is not None and first <= IPv4Address(address) <= last:
        text = f"{quote(address)} is one of the pool of logicalNetwork, which machines may be given"
        yield contradiction(("controlPlane", "address"), text, *_POOL)


def _room(settings: Settings, network: LogicalNetwork) -> Iterator[Contradiction]:
    """Yield a pool of addresses that is too small for the machines."""
    count = int(IPv4Address(network.pool_end)) - int(IPv4Address(network.pool_start)) + 1
    # Each machine keeps its own, and an upgrade makes one more before it removes an old one.
    # The API server's is one of the pool's unless it is set.
    vip = 1 if settings.control_plane.address is None else 0
    workers = settings.system.nodes + (0 if settings.gpu is None else settings.gpu.max_nodes)
    needed = settings.control_plane.nodes + workers + 1 + vip
    if 0 < count < needed:
        text = f"{quote(network.pool_end)} leaves {count} addresses, while the machines and an "
        others = ("logicalNetwork.poolStart", "controlPlane", "system.nodes", "gpu.maxNodes")
        place = ("logicalNetwork", "poolEnd")
        yield contradiction(place, f"{text}upgrade need {needed}", *others)
