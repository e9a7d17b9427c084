"""Settings of an AKS cluster that are each allowed but not together."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from clusters.azure.sizes import GPUS, PARTIAL
from infra.problem import Contradiction, Path
from infra.words import quote

if TYPE_CHECKING:
    from clusters.azure.nodes import GpuNodes, NodeTaint
    from clusters.azure.settings import Settings

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_RESERVED = ("kubernetes.azure.com/", "kubernetes.io/", "node.kubernetes.io/", "slipway.dev/")


def contradictions(settings: Settings) -> list[Contradiction]:
    """Return everything that does not go together, by the key to change."""
    return [
        *_api(settings),
        *_admins(settings),
        *_network(settings),
        *_pools(settings),
        *_gpu(settings.gpu or None),
    ]


def _api(settings: Settings) -> Iterator[Contradiction]:
    api = settings.api
    if api.private == bool(api.authorized_ranges):
        yield _of(
            ("api",),
            "takes exactly one of authorizedRanges and private: true; with neither the whole "
            "internet would reach the API server",
        )
    for index, text in enumerate(api.authorized_ranges):
        place = ("api", "authorizedRanges", index)
        network = _parsed(text)
        if network is None:
            yield _of(place, f"{quote(text)} is no network; such as 192.0.2.0/24")
        elif network.prefixlen < 8:
            yield _of(place, f"{quote(text)} is far too many; at most a /8 is allowed")
        elif any(network.overlaps(private) for private in _PRIVATE):
            yield _of(
                place, f"{quote(text)} is no public address; with private: true none is needed"
            )


def _admins(settings: Settings) -> Iterator[Contradiction]:
    admins = settings.admins
    if not (admins.groups or admins.users or admins.service_principals):
        yield _of(
            ("admins",),
            "names nobody, and whoever runs pulumi up has to be one; add your own ID to users: "
            "az ad signed-in-user show --query id",
        )


def _network(settings: Settings) -> Iterator[Contradiction]:
    network = settings.network
    ranges = {}
    for name in ("addresses", "nodes", "pods", "services"):
        text = getattr(network, name)
        ranges[name] = _parsed(text)
        if ranges[name] is None:
            yield _of(("network", name), f"{quote(text)} is no network; such as 10.40.0.0/16")
    known = {name: each for name, each in ranges.items() if each is not None}
    if {"addresses", "nodes"} <= known.keys() and not known["nodes"].subnet_of(known["addresses"]):
        yield _of(("network", "nodes"), f"{network.nodes} is not inside of {network.addresses}")
    for one, other in (("addresses", "pods"), ("addresses", "services"), ("pods", "services")):
        if {one, other} <= known.keys() and known[one].overlaps(known[other]):
            yield _of(("network", other), f"{known[other]} overlaps {one}, {known[one]}")


def _pools(settings: Settings) -> Iterator[Contradiction]:
    for name in ("system", "cpu", "gpu"):
        pool = getattr(settings, name) or None
        if pool is not None and pool.min_nodes > pool.max_nodes:
            yield _of(
                (name, "minNodes"),
                f"{pool.min_nodes} is more than maxNodes, {pool.max_nodes}",
            )
    for name in ("system", "cpu"):
        pool = getattr(settings, name)
        if pool is not None and pool.size in GPUS:
            yield _of((name, "size"), f"{quote(pool.size)} has GPUs; those belong into gpu")


def _gpu(gpu: GpuNodes | None) -> Iterator[Contradiction]:
    if gpu is None:
        return
    known = GPUS.get(gpu.size)
    if gpu.size in PARTIAL:
        yield _of(
            ("gpu", "size"), f"{quote(gpu.size)} has a part of a GPU; take a size with whole ones"
        )
    elif known is None and gpu.gpus_per_node is None:
        yield _of(
            ("gpu", "gpusPerNode"),
            f"has to be said, since {quote(gpu.size)} is not one of the sizes known here: "
            f"{', '.join(sorted(GPUS))}",
        )
    elif known is not None and gpu.gpus_per_node not in {None, known}:
        yield _of(("gpu", "gpusPerNode"), f"{gpu.gpus_per_node} is not so: {gpu.size} has {known}")
    if gpu.spot is not None:
        price = gpu.spot.max_price
        # https://learn.microsoft.com/azure/aks/spot-node-pool#limitations
        if price != -1 and (price <= 0 or round(price, 5) != price):
            yield _of(
                ("gpu", "spot", "maxPrice"),
                f"{price:g} is not allowed; it takes -1, or a number above 0 with at most 5 "
                "decimals",
            )
    yield from _named(gpu)


def _named(gpu: GpuNodes) -> Iterator[Contradiction]:
    for key in gpu.labels:
        if key.startswith(_RESERVED):
            yield _of(("gpu", "labels", key), "is reserved; use a prefix of your own")
    for index, taint in enumerate(gpu.taints):
        if taint.key.startswith(_RESERVED):
            place = ("gpu", "taints", index, "key")
            yield _of(place, f"{quote(taint.key)} is reserved; use a prefix of your own")
    if not _keeps_off(gpu.taints):
        yield _of(
            ("gpu", "taints"),
            "need one with the effect NoSchedule or NoExecute: else pods without GPUs would hold "
            "nodes that are paid for",
        )


def _keeps_off(taints: tuple[NodeTaint, ...]) -> bool:
    return any(taint.effect in {"NoSchedule", "NoExecute"} for taint in taints)


def _parsed(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _of(path: Path, text: str) -> Contradiction:
    return Contradiction(path, text, frozenset({str(path[0])}))
