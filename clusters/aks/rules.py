"""What AKS refuses in the settings of a cluster, though each value is allowed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from clusters import azure
from clusters.azure import contradiction, cores
from core.problem import Contradiction, quote

if TYPE_CHECKING:
    from clusters.aks.pools import AksGpuNodes
    from clusters.aks.settings import Api, Network, Settings

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_MOST_RANGES = 200
"""https://learn.microsoft.com/azure/aks/api-server-authorized-ip-ranges#limitations"""
_PREFIXES = {"addresses": (8, 29), "nodes": (8, 29), "services": (13, 28)}
"""Bits of the largest and of the smallest prefix; DNS gets the eleventh address of `services`.

https://learn.microsoft.com/azure/aks/concepts-network-ip-address-planning and
https://learn.microsoft.com/azure/virtual-network/virtual-networks-faq
"""
_SYSTEM_CORES = 4
"""https://learn.microsoft.com/azure/aks/use-system-pools#system-and-user-node-pools"""
_RESERVED = re.compile(r"(kubernetes\.azure\.com|([^/]+\.)?kubernetes\.io|slipway\.dev)/")
"""https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes"""


def contradictions(settings: Settings) -> list[Contradiction]:
    """Return everything that is wrong, by the key to change."""
    found = [
        *azure.region(settings.location),
        *_api(settings.api),
        *_admins(settings),
        *_network(settings.network),
        *_pools(settings),
        *_system(settings.system.size),
        *_services(settings),
        *azure.tags(settings),
        *azure.reserved(("name",), settings.resource_name),
        *azure.reserved(("registry", "name"), settings.registry.name),
        *azure.reserved(("storage", "name"), settings.storage.name),
    ]
    return [*found, *_gpu(settings.gpu)] if settings.gpu else found


def _api(api: Api) -> Iterator[Contradiction]:
    if api.private == bool(api.authorized_ranges):
        why = (
            "a private API server has no public address to allow anybody to; leave one out"
            if api.private
            else "with neither the whole internet would reach the API server"
        )
        text = f"takes exactly one of authorizedRanges and private: true; {why}"
        yield contradiction(("api",), text)
    if len(api.authorized_ranges) > _MOST_RANGES:
        text = f"has {len(api.authorized_ranges)} ranges; AKS takes at most {_MOST_RANGES}"
        yield contradiction(("api", "authorizedRanges"), text)
    for index, text in enumerate(api.authorized_ranges):
        place = ("api", "authorizedRanges", index)
        network = _parsed(text)
        if network is None:
            yield contradiction(place, f"{quote(text)} is no network; such as 192.0.2.0/24")
        elif network.prefixlen < 8:
            yield contradiction(place, f"{quote(text)} is far too many; at most a /8 is allowed")
        elif any(network.overlaps(private) for private in _PRIVATE):
            yield contradiction(
                place, f"{quote(text)} is no public address; with private: true none is needed"
            )


def _admins(settings: Settings) -> Iterator[Contradiction]:
    admins = settings.admins
    if not (admins.groups or admins.users or admins.service_principals):
        yield contradiction(
            ("admins",),
            "is empty, and whoever runs pulumi up has to be in it; add your own ID to users: "
            "az ad signed-in-user show --query id",
        )
    for name in ("groups", "users", "service_principals"):
        yield from azure.repeated(("admins", to_camel(name)), getattr(admins, name))


def _network(network: Network) -> Iterator[Contradiction]:
    known: dict[str, IPv4Network] = {}
    for name in ("addresses", "nodes", "pods", "services"):
        text, parsed = getattr(network, name), _parsed(getattr(network, name))
        largest, smallest = _PREFIXES.get(name, (0, 32))
        if parsed is None:
            yield contradiction(
                ("network", name), f"{quote(text)} is no network; such as 10.40.0.0/16"
            )
        elif not largest <= parsed.prefixlen <= smallest:
            allowed = f"it takes a network of /{largest} to /{smallest}"
            yield contradiction(("network", name), f"{text} is not allowed; {allowed}")
        else:
            known[name] = parsed
    if {"addresses", "nodes"} <= known.keys() and not known["nodes"].subnet_of(known["addresses"]):
        yield contradiction(
            ("network", "nodes"),
            f"{network.nodes} is not inside of {network.addresses}",
            "network.addresses",
        )
    for one, other in (("addresses", "pods"), ("addresses", "services"), ("pods", "services")):
        if {one, other} <= known.keys() and known[one].overlaps(known[other]):
            text = f"{known[other]} overlaps {one}, {known[one]}"
            yield contradiction(("network", other), text, f"network.{one}")


def _pools(settings: Settings) -> Iterator[Contradiction]:
    for name in ("system", "cpu", "gpu"):
        if pool := getattr(settings, name):
            yield from azure.repeated((name, "zones"), pool.zones)
            if name != "gpu":
                yield from azure.bounds(name, pool.min_nodes, pool.max_nodes)
                yield from azure.without_gpus(name, pool.size)


def _system(size: str) -> Iterator[Contradiction]:
    count = cores(size)
    if size.startswith("Standard_B"):
        text = f"{quote(size)} is not allowed; AKS takes no size of the B series for system nodes"
        yield contradiction(("system", "size"), text)
    elif count is not None and count < _SYSTEM_CORES:
        text = (
            f"{quote(size)} has {count} vCPUs; AKS takes system nodes of at least {_SYSTEM_CORES}"
        )
        yield contradiction(("system", "size"), text)


def _gpu(gpu: AksGpuNodes) -> Iterator[Contradiction]:
    yield from azure.gpu_nodes(gpu)
    for key in gpu.labels:
        if _RESERVED.match(key):
            yield contradiction(("gpu", "labels", key), "is reserved; use a prefix of your own")
    for index, taint in enumerate(gpu.taints):
        if _RESERVED.match(taint.key):
            place = ("gpu", "taints", index, "key")
            yield contradiction(place, f"{quote(taint.key)} is reserved; use a prefix of your own")
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


def _services(settings: Settings) -> Iterator[Contradiction]:
    most = settings.logs.daily_gib
    if most != -1 and most <= 0:
        text = f"{most:g} is not allowed; it takes -1 for no limit, or a number above 0"
        yield contradiction(("logs", "dailyGib"), text)
    if settings.budget:
        yield from azure.repeated(("budget", "emails"), settings.budget.emails)


def _parsed(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None
