"""Settings of an AKS cluster that are each allowed but not together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from clusters.azure import names, possible
from clusters.azure.cores import cores
from clusters.azure.sizes import GPUS, PARTIAL
from core.problem import Contradiction
from core.text import quote

if TYPE_CHECKING:
    from clusters.azure.nodes import GpuNodes
    from clusters.azure.settings import Settings

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
    """Return everything that does not go together, by the key to change."""
    return [
        *possible.region(settings.location),
        *_api(settings),
        *_admins(settings),
        *_network(settings),
        *_pools(settings),
        *_system(settings.system.size),
        *_gpu(settings.gpu or None),
        *_services(settings),
        *possible.tags(names.tags(settings)),
    ]


def _api(settings: Settings) -> Iterator[Contradiction]:
    api = settings.api
    if api.private == bool(api.authorized_ranges):
        why = (
            "a private API server has no public address to allow anybody to; leave one out"
            if api.private
            else "with neither the whole internet would reach the API server"
        )
        text = f"takes exactly one of authorizedRanges and private: true; {why}"
        yield possible.of(("api",), text)
    if len(api.authorized_ranges) > _MOST_RANGES:
        text = f"has {len(api.authorized_ranges)} ranges; AKS takes at most {_MOST_RANGES}"
        yield possible.of(("api", "authorizedRanges"), text)
    for index, text in enumerate(api.authorized_ranges):
        place = ("api", "authorizedRanges", index)
        network = _parsed(text)
        if network is None:
            yield possible.of(place, f"{quote(text)} is no network; such as 192.0.2.0/24")
        elif network.prefixlen < 8:
            yield possible.of(place, f"{quote(text)} is far too many; at most a /8 is allowed")
        elif any(network.overlaps(private) for private in _PRIVATE):
            yield possible.of(
                place, f"{quote(text)} is no public address; with private: true none is needed"
            )


def _admins(settings: Settings) -> Iterator[Contradiction]:
    admins = settings.admins
    if not (admins.groups or admins.users or admins.service_principals):
        yield possible.of(
            ("admins",),
            "names nobody, and whoever runs pulumi up has to be one; add your own ID to users: "
            "az ad signed-in-user show --query id",
        )
    for name in ("groups", "users", "service_principals"):
        yield from possible.repeated(("admins", to_camel(name)), getattr(admins, name))


def _network(settings: Settings) -> Iterator[Contradiction]:
    network = settings.network
    known: dict[str, IPv4Network] = {}
    for name in ("addresses", "nodes", "pods", "services"):
        text, parsed = getattr(network, name), _parsed(getattr(network, name))
        largest, smallest = _PREFIXES.get(name, (0, 32))
        if parsed is None:
            yield possible.of(
                ("network", name), f"{quote(text)} is no network; such as 10.40.0.0/16"
            )
        elif not largest <= parsed.prefixlen <= smallest:
            allowed = f"it takes a network of /{largest} to /{smallest}"
            yield possible.of(("network", name), f"{text} is not allowed; {allowed}")
        else:
            known[name] = parsed
    if {"addresses", "nodes"} <= known.keys() and not known["nodes"].subnet_of(known["addresses"]):
        yield possible.of(
            ("network", "nodes"),
            f"{network.nodes} is not inside of {network.addresses}",
            "network.addresses",
        )
    for one, other in (("addresses", "pods"), ("addresses", "services"), ("pods", "services")):
        if {one, other} <= known.keys() and known[one].overlaps(known[other]):
            text = f"{known[other]} overlaps {one}, {known[one]}"
            yield possible.of(("network", other), text, f"network.{one}")


def _pools(settings: Settings) -> Iterator[Contradiction]:
    for name in ("system", "cpu", "gpu"):
        pool = getattr(settings, name) or None
        if pool is not None and pool.min_nodes > pool.max_nodes:
            yield possible.of(
                (name, "minNodes"),
                f"{pool.min_nodes} is more than maxNodes, {pool.max_nodes}",
                f"{name}.maxNodes",
            )
        if pool is not None:
            yield from possible.repeated((name, "zones"), pool.zones)
            if name != "gpu":
                yield from possible.without_gpus(name, pool.size)


def _system(size: str) -> Iterator[Contradiction]:
    count = cores(size)
    if size.startswith("Standard_B"):
        text = f"{quote(size)} is not allowed; AKS takes no size of the B series for system nodes"
        yield possible.of(("system", "size"), text)
    elif count is not None and count < _SYSTEM_CORES:
        text = (
            f"{quote(size)} has {count} vCPUs; AKS takes system nodes of at least {_SYSTEM_CORES}"
        )
        yield possible.of(("system", "size"), text)


def _gpu(gpu: GpuNodes | None) -> Iterator[Contradiction]:
    if gpu is None:
        return
    known = GPUS.get(gpu.size)
    if unusable := [*possible.with_gpus(gpu.size)]:
        yield from unusable
    elif gpu.size in PARTIAL:
        yield possible.of(
            ("gpu", "size"), f"{quote(gpu.size)} has a part of a GPU; take a size with whole ones"
        )
    elif known is None and gpu.gpus_per_node is None:
        yield possible.of(
            ("gpu", "gpusPerNode"),
            f"has to be said, since {quote(gpu.size)} is not one of the sizes known here: "
            f"{', '.join(sorted(GPUS))}",
            "gpu.size",
        )
    elif known is not None and gpu.gpus_per_node not in {None, known}:
        text = f"{gpu.gpus_per_node} is not so: {gpu.size} has {known}"
        yield possible.of(("gpu", "gpusPerNode"), text, "gpu.size")
    if gpu.spot is not None:
        price = gpu.spot.max_price
        # https://learn.microsoft.com/azure/aks/spot-node-pool#limitations
        if price != -1 and (price <= 0 or round(price, 5) != price):
            yield possible.of(
                ("gpu", "spot", "maxPrice"),
                f"{price:g} is not allowed; it takes -1, or a number above 0 with at most 5 "
                "decimals",
            )
    yield from possible.disk(gpu)
    yield from _named(gpu)


def _named(gpu: GpuNodes) -> Iterator[Contradiction]:
    for key in gpu.labels:
        if _RESERVED.match(key):
            yield possible.of(("gpu", "labels", key), "is reserved; use a prefix of your own")
    for index, taint in enumerate(gpu.taints):
        if _RESERVED.match(taint.key):
            place = ("gpu", "taints", index, "key")
            yield possible.of(place, f"{quote(taint.key)} is reserved; use a prefix of your own")
    yield from possible.kept_off(gpu.taints)


def _services(settings: Settings) -> Iterator[Contradiction]:
    most = settings.logs.daily_gib
    if most != -1 and most <= 0:
        text = f"{most:g} is not allowed; it takes -1 for no limit, or a number above 0"
        yield possible.of(("logs", "dailyGib"), text)
    if settings.budget:
        yield from possible.repeated(("budget", "emails"), settings.budget.emails)


def _parsed(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None
