"""Use `az` to check for problems with the account that would make AKS refuse a cluster."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Network
from typing import Any

import pulumi

from clusters.aks.access import Principal
from clusters.aks.settings import CONSTANTS, GPU_FALLBACK, AksSettings, node_pools
from clusters.azure.checks import KEY, az
from clusters.azure.facts import cores
from core.problem import Problem, meant, quote
from core.process import CommandFailed

_SPOT, _REGULAR = "lowPriorityCores", "cores"
"""The quotas for spot nodes of all VM families, and for regular nodes of all families."""
_QUOTAS = "https://learn.microsoft.com/azure/quotas/per-vm-quota-requests"


def problems(settings: AksSettings, account: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield problems with an account, as `az account show` prints it, and with its subscription."""

    def answer(question: Callable[[AksSettings], Iterator[Problem]]) -> list[Problem]:
        try:
            return [*question(settings)]
        except CommandFailed:
            return []  # This account may not be allowed to read it.

    with ThreadPoolExecutor() as pool:
        admin = partial(_admin, user=account["user"])
        for results in pool.map(answer, (admin, _registered, _region, _sizes, _subnet)):
            yield from results


def administrators(settings: AksSettings) -> Mapping[Principal, Sequence[str]]:
    """Return the administrators' object IDs, by default only the caller's, or raise `RunError`."""
    if any(settings.admins.by_kind.values()):
        return settings.admins.by_kind
    try:
        kind, who = _caller(settings, az(settings, "account", "show")["user"])
    except CommandFailed as error:
        if pulumi.runtime.is_dry_run():
            return {}  # `checks.before_update` has warned about it.
        text = (
            "slipway:cluster.admins is not set, so you are the administrator, but your account "
            f"can't be read: {error}"
        )
        raise pulumi.RunError(text) from None
    return {kind: [who]}


def _caller(settings: AksSettings, user: Mapping[str, str]) -> tuple[Principal, str]:
    """Return the type and the object ID of the account that is logged in."""
    if user["type"] == "user":
        return "User", az(settings, "ad", "signed-in-user", "show")["id"]
    return "ServicePrincipal", az(settings, "ad", "sp", "show", "--id", user["name"])["id"]


def _admin(settings: AksSettings, user: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem if the caller is not an administrator: the cluster would reject it."""
    admins = settings.admins
    if settings.admin_kubeconfig or settings.login != "azurecli":
        return  # The cluster is not used with this account.
    # Only directory readers may list a service principal's groups.
    if not any(admins.by_kind.values()) or (admins.groups and user["type"] != "user"):
        return
    kind, who = _caller(settings, user)
    groups = az(settings, "ad", "user", "get-member-groups", "--id", who) if admins.groups else ()
    ids = {each.lower() for each in (*admins.by_kind[kind], *admins.groups)}
    if ids & {who.lower(), *(each["id"].lower() for each in groups)}:
        return
    key = "users" if kind == "User" else "servicePrincipals"
    text = f"excludes you, {user['name']}, so the cluster would refuse you; add {who} to {key}"
    yield Problem(f"{KEY}.admins", text)


def _registered(settings: AksSettings) -> Iterator[Problem]:
    """Yield resource providers that are not registered in the subscription."""
    listed = az(settings, "provider", "list")
    states = {each["namespace"].lower(): each["registrationState"] for each in listed}
    for name in CONSTANTS["providers"]:
        if (state := states.get(name.lower(), "NotRegistered")) != "Registered":
            text = (
                f"has the resource provider {name} in the state {state}; run "
                f"`az provider register --namespace {name} --wait --subscription "
                f"{settings.subscription}`"
            )
            yield Problem(f"{KEY}.subscription", text)


def _region(settings: AksSettings) -> Iterator[Problem]:
    """Yield a problem if the region does not exist."""
    locations = [each["name"] for each in az(settings, "account", "list-locations")]
    if settings.location not in locations:
        text = f"{quote(settings.location)} is not listed by `az account list-locations`."
        yield Problem(f"{KEY}.location", f"{text}{meant(settings.location, locations)}")


def _subnet(settings: AksSettings) -> Iterator[Problem]:
    """Yield problems with an existing subnet: a missing endpoint, or overlap with other ranges."""
    # https://learn.microsoft.com/azure/aks/concepts-network-ip-address-planning
    network = settings.network
    if network.subnet is None:
        return
    subnet = az(settings, "network", "vnet", "subnet", "show", "--ids", network.subnet)
    has = {each["service"] for each in subnet.get("serviceEndpoints") or ()}
    if "Microsoft.Storage" not in has:
        text = "has no service endpoint Microsoft.Storage, which nodes need for the storage account"
        yield Problem(f"{KEY}.network.subnet", f"{text}; add it")
    # A subnet has one prefix, or several.
    for key in ("pods", "services"):
        own = IPv4Network(getattr(network, key))
        for each in subnet.get("addressPrefixes") or [subnet["addressPrefix"]]:
            if own.overlaps(IPv4Network(each)):
                yield Problem(
                    f"{KEY}.network.{key}",
                    f"{own} overlaps the subnet, {each}; choose another range",
                )


def _sizes(settings: AksSettings) -> Iterator[Problem]:
    """Yield sizes that are not available, and quotas that the pools would exceed in total."""
    pools = node_pools(settings)
    sizes = {size: _sku(settings, size) for size in {pool.size for pool in pools.values()}}
    needed: dict[str, dict[str, int]] = defaultdict(dict)
    refused: set[tuple[str, tuple[str, ...]]] = set()
    for name, pool in pools.items():
        key = "gpu.spot.fallback" if name == GPU_FALLBACK else name
        sku = sizes[pool.size]
        refusal = "Azure does not offer it there" if sku is None else _restriction(sku, pool.zones)
        if refusal and (pool.size, pool.zones) not in refused:
            refused.add((pool.size, pool.zones))
            text = f"{pool.size} is not available in {settings.location}: {refusal}; use another"
            yield Problem(f"{KEY}.{key}.size", f"{text} size or location, or see {_QUOTAS}")
        if sku is None or (count := cores(pool.size)) is None:
            continue
        for quota in (sku["family"], _REGULAR) if pool.spot is None else (_SPOT,):
            needed[quota][key] = pool.max_nodes * int(count)
    usages = az(settings, "vm", "list-usage", "--location", settings.location)
    limits = {each["name"]["value"].lower(): int(each["limit"]) for each in usages}
    for quota, uses in needed.items():
        limit, total = limits.get(quota.lower(), math.inf), sum(uses.values())
        if total > limit:
            *_, last = keys = [f"{key}.maxNodes" for key in uses]
            text = f"allows {total} vCPUs of {quota}, but the quota in {settings.location} is "
            text += f"{limit}; lower {', '.join(keys)} or request more: {_QUOTAS}"
            yield Problem(f"{KEY}.{last}", text)


def _sku(settings: AksSettings, size: str) -> Mapping[str, Any] | None:
    """Return Azure's description of a VM size in the cluster's region, or None if not offered."""
    listed: list[Mapping[str, Any]] = az(
        settings, "vm", "list-skus", "--all", "--resource-type", "virtualMachines",
        *("--location", settings.location, "--size", size),
    )  # fmt: skip
    return next((each for each in listed if each["name"] == size), None)


def _restriction(size: Mapping[str, Any], zones: tuple[str, ...]) -> str | None:
    """Return why a size is not available to the subscription, or None if it is."""
    # https://learn.microsoft.com/rest/api/compute/resource-skus/list
    for each in size.get("restrictions") or []:
        if each["type"] == "Location":
            return str(each["reasonCode"])
        refused = set(each["restrictionInfo"]["zones"]) & set(zones)
        if refused:
            return f"{each['reasonCode']} in zone {', '.join(sorted(refused))}"
    return None
