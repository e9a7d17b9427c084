"""What of the account would make AKS refuse a cluster after minutes, before anything is created.

Azure's CLI reports it, as the account that is logged in. A query that this account may not make
yields no problem.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from clusters import azure
from clusters.azure.checks import KEY, az
from core.problem import Problem
from core.process import CommandFailed

if TYPE_CHECKING:
    from clusters.aks.settings import Settings

_PROVIDERS = (
    "Microsoft.Compute",
    "Microsoft.ContainerRegistry",
    "Microsoft.ContainerService",
    "Microsoft.Insights",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.OperationalInsights",
    "Microsoft.Storage",
)
"""Of what a cluster consists of.

https://learn.microsoft.com/azure/azure-resource-manager/management/azure-services-resource-providers
"""
_SPOT = "lowPriorityCores"
_ALL = "cores"
"""The quotas of spot nodes of all families, and of all other nodes together."""
_QUOTAS = "https://learn.microsoft.com/azure/quotas/per-vm-quota-requests"


def problems(settings: Settings) -> Iterator[Problem]:
    """Yield what is wrong with the login, its rights in the cluster, and the subscription.

    Without a login to the subscription's tenant that is the only problem.
    """
    try:
        account = _ask(settings, "account", "show")
    except CommandFailed as error:
        text = f"does not let anybody in who is logged in here: {' '.join(str(error).split())}; "
        yield Problem(f"{KEY}.subscription", f"{text}run `az login`")
        return
    questions: tuple[Callable[[], list[Problem]], ...] = (
        lambda: [*_admin(settings, account["user"])],
        lambda: [*_registered(settings)],
        lambda: [*_sizes(settings)],
    )
    with ThreadPoolExecutor() as pool:
        for answer in [pool.submit(_allowed, question) for question in questions]:
            yield from answer.result()


def _allowed(question: Callable[[], list[Problem]]) -> list[Problem]:
    """Return the answer; no problem where the account may not make the query."""
    try:
        return question()
    except CommandFailed:
        return []


def _admin(settings: Settings, user: Mapping[str, str]) -> Iterator[Problem]:
    """Yield that the caller is no administrator: the cluster would not let it in."""
    admins = settings.admins
    if user["type"] == "user":
        who = _ask(settings, "ad", "signed-in-user", "show")["id"]
        among, key = admins.users, "users"
    else:
        if admins.groups:
            return  # Only the directory's readers may list a program's groups.
        who = _ask(settings, "ad", "sp", "show", "--id", user["name"])["id"]
        among, key = admins.service_principals, "servicePrincipals"
    if who in among:
        return
    if admins.groups:
        groups = _ask(settings, "ad", "user", "get-member-groups", "--id", who)
        if {each["id"] for each in groups} & set(admins.groups):
            return
    text = f"has not you, {user['name']}, whom the cluster would not let in; add {who} to {key}"
    yield Problem(f"{KEY}.admins", text)


def _registered(settings: Settings) -> Iterator[Problem]:
    """Yield the services that the subscription has never used, and so refuses."""
    states = {
        each["namespace"].lower(): each["registrationState"]
        for each in _ask(settings, "provider", "list")
    }
    for name in _PROVIDERS:
        if (state := states.get(name.lower(), "NotRegistered")) != "Registered":
            text = f"has {name} as {state}; run `az provider register --namespace {name} --wait`"
            yield Problem(f"{KEY}.subscription", text)


def _sizes(settings: Settings) -> Iterator[Problem]:
    """Yield sizes that can't be had, and quotas that the pools would not fit into.

    A quota is compared with all that the pools may grow to, and not with what is left of it: nodes
    of this cluster may be what uses it.
    """
    pools = {"system": settings.system, "cpu": settings.cpu, "gpu": settings.gpu}
    needed: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, pool in pools.items():
        if not pool:
            continue
        listed = _ask(
            settings, "vm", "list-skus", "--all", "--resource-type", "virtualMachines",
            *("--location", settings.location, "--size", pool.size),
        )  # fmt: skip
        found = next((each for each in listed if each["name"] == pool.size), None)
        refusal = "no such size is offered" if found is None else _restriction(found, pool.zones)
        if refusal:
            text = f"{pool.size} can't be had in {settings.location}: {refusal}; take another size"
            yield Problem(f"{KEY}.{key}.size", f"{text} or location, or see {_QUOTAS}")
        if found is None or (count := azure.cores(pool.size)) is None:
            continue
        is_spot = getattr(pool, "spot", None) is not None
        for quota in (_SPOT,) if is_spot else (found["family"], _ALL):
            needed[quota].append((key, pool.max_nodes * count))
    usages = _ask(settings, "vm", "list-usage", "--location", settings.location)
    limits = {each["name"]["value"].lower(): int(each["limit"]) for each in usages}
    for quota, uses in needed.items():
        limit, wanted = limits.get(quota.lower()), sum(cores for _, cores in uses)
        if limit is not None and wanted > limit:
            keys = ", ".join(f"{key}.maxNodes" for key, _ in uses)
            text = f"may grow to {wanted} vCPUs of {quota}, whose quota in {settings.location} is "
            text += f"{limit}; lower it ({keys}) or request more: {_QUOTAS}"
            yield Problem(f"{KEY}.{uses[-1][0]}.maxNodes", text)


def _restriction(size: Mapping[str, Any], zones: tuple[str, ...]) -> str | None:
    """Return why a subscription can't have a size; None where it can.

    https://learn.microsoft.com/rest/api/compute/resource-skus/list
    """
    for each in size.get("restrictions") or []:
        if each["type"] == "Location":
            return str(each["reasonCode"])
        refused = set(each["restrictionInfo"]["zones"]) & set(zones)
        if refused:
            return f"{each['reasonCode']} in zone {', '.join(sorted(refused))}"
    return None


def _ask(settings: Settings, *words: str) -> Any:
    return json.loads(az(settings, *words))
