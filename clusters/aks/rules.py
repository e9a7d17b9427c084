"""What AKS refuses in the settings of a cluster, though each value is allowed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations
from typing import TYPE_CHECKING

from clusters import azure
from clusters.azure import GPUS, cores
from core.problem import Contradiction, contradiction, quote

if TYPE_CHECKING:
    from clusters.aks.pools import AksGpuNodes
    from clusters.aks.settings import Admins, Api, Network, Settings
    from clusters.azure.settings import Login

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_PREFIXES = {"addresses": (8, 29), "nodes": (8, 29), "pods": (0, 32), "services": (13, 28)}
"""Bits of the largest and of the smallest prefix; DNS gets the eleventh address of `services`.

https://learn.microsoft.com/azure/aks/concepts-network-ip-address-planning and
https://learn.microsoft.com/azure/virtual-network/virtual-networks-faq
"""
_RESERVED = re.compile(r"(kubernetes\.azure\.com|([^/]+\.)?kubernetes\.io|slipway\.dev)/")
"""https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes"""


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """Yield everything that is wrong, by the key to change."""
    yield from azure.reserved(("registry", "name"), settings.registry.name)
    yield from azure.reserved(("storage", "name"), settings.storage.name)
    yield from _api(settings.api)
    yield from _admins(settings.admins, settings.login)
    yield from _network(settings.network)
    yield from _system(settings.system.size)
    for name, pool in (("system", settings.system), ("cpu", settings.cpu)):
        if pool is not None:
            yield from azure.bounds((name,), pool.min_nodes, pool.max_nodes)
            yield from azure.without_gpus(name, pool.size)
    if settings.gpu:
        yield from azure.gpu_nodes(settings.gpu)
        yield from _gpu(settings.gpu)
        yield from _fallback(settings.gpu)
    if (most := settings.logs.daily_gib) != -1 and most <= 0:
        text = f"{most:g} is not allowed; it takes -1 for no limit, or a number above 0"
        yield contradiction(("logs", "dailyGib"), text)


def _api(api: Api) -> Iterator[Contradiction]:
    ranges = api.authorized_ranges
    if api.private == bool(ranges):
        why = "with neither the whole internet would reach the API server"
        if api.private:
            why = "a private API server has no public address to allow anybody to; leave one out"
        text = f"takes exactly one of authorizedRanges and private: true; {why}"
        yield contradiction(("api",), text)
    for index, each in enumerate(ranges):
        network, wrong = IPv4Network(each), ""
        if network.prefixlen < 8:
            wrong = "is far too many; at most a /8 is allowed"
        elif any(map(network.overlaps, _PRIVATE)):
            wrong = "is no public address; with private: true none is needed"
        if wrong:
            yield contradiction(("api", "authorizedRanges", index), f"{quote(each)} {wrong}")


def _admins(admins: Admins, login: Login) -> Iterator[Contradiction]:
    if login != "azurecli" and not any(admins.by_kind.values()):
        text = f"is missing; with the login {login} it has to have that account, by its object ID"
        yield contradiction(("admins",), text, "login")


def _network(network: Network) -> Iterator[Contradiction]:
    fitting: dict[str, IPv4Network] = {}
    for name, (largest, smallest) in _PREFIXES.items():
        parsed = IPv4Network(getattr(network, name))
        if largest <= parsed.prefixlen <= smallest:
            fitting[name] = parsed
        else:
            text = f"{parsed} is not allowed; it takes a network of /{largest} to /{smallest}"
            yield contradiction(("network", name), text)
    for (one, outer), (other, inner) in combinations(fitting.items(), 2):
        if (one, other) == ("addresses", "nodes"):
            if not inner.subnet_of(outer):
                text = f"{inner} is not inside of {outer}"
                yield contradiction(("network", "nodes"), text, "network.addresses")
        elif one != "nodes" and inner.overlaps(outer):
            text = f"{inner} overlaps {one}, {outer}"
            yield contradiction(("network", other), text, f"network.{one}")


def _system(size: str) -> Iterator[Contradiction]:
    # https://learn.microsoft.com/azure/aks/use-system-pools#system-and-user-node-pools
    count, wrong = cores(size), ""
    if size.startswith("Standard_B"):
        wrong = "is not allowed; AKS takes no size of the B series for system nodes"
    elif count is not None and count < 4:
        wrong = f"has {count} vCPUs; AKS takes system nodes of at least 4"
    if wrong:
        yield contradiction(("system", "size"), f"{quote(size)} {wrong}")


def _gpu(gpu: AksGpuNodes) -> Iterator[Contradiction]:
    reserved = "is reserved; use a prefix of your own"
    for key in filter(_RESERVED.match, gpu.labels):
        yield contradiction(("gpu", "labels", key), reserved)
    for index, taint in enumerate(gpu.taints):
        if _RESERVED.match(taint.key):
            place = ("gpu", "taints", index, "key")
            yield contradiction(place, f"{quote(taint.key)} {reserved}")
    if (spot := gpu.spot) is None:
        return
    # https://learn.microsoft.com/azure/aks/spot-node-pool#limitations
    price = spot.max_price
    if price != -1 and (price <= 0 or round(price, 5) != price):
        text = f"{price:g} is not allowed; it takes -1, or a number above 0 with at most 5 decimals"
        yield contradiction(("gpu", "spot", "maxPrice"), text)
    # https://learn.microsoft.com/azure/virtual-machines/ephemeral-os-disks
    if gpu.os_disk.type == "Ephemeral" and spot.eviction_policy == "Deallocate":
        text = (
            '"Deallocate" goes with no osDisk of the type Ephemeral, which is lost with the '
            "machine; take Delete, or a Managed disk"
        )
        yield contradiction(("gpu", "spot", "evictionPolicy"), text, "gpu.osDisk")


def _fallback(gpu: AksGpuNodes) -> Iterator[Contradiction]:
    """Yield what is wrong with the nodes that take over from spot nodes, and not with these."""
    if (fallback := gpu.fallback) is None:
        return
    place = ("gpu", "spot", "fallback")
    yield from azure.bounds(place, fallback.min_nodes, fallback.max_nodes)
    known, wanted = GPUS.get(gpu.size, gpu.gpus_per_node), GPUS.get(fallback.size)
    if fallback.size != gpu.size and known is not None and known != wanted:
        alike = ", ".join(size for size, gpus in GPUS.items() if gpus == known)
        yield contradiction(
            (*place, "size"),
            f"{quote(fallback.size)} is not allowed; replicas of a job may be on either, so a node "
            f"must have as many GPUs as one of {gpu.size}: {known}. Known to have as many: {alike}",
            "gpu.size",
        )
