"""Clusters: what goes together, and what has to."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from core.values import UNKNOWN
from scripts.offline.azure_recording.rules.pools import CLUSTER
from scripts.offline.azure_recording.rules.rule import Inputs, Rule, listed, within
from scripts.offline.azure_recording.shapes import Finding

_LEARN = "https://learn.microsoft.com/azure/aks/"
_REST = (
    "https://learn.microsoft.com/rest/api/aks/managed-clusters/create-or-update"
    "?view=rest-aks-2025-09-01"
)
_MOST_RANGES = 200


def _system_pool(inputs: Inputs) -> Iterator[Finding]:
    pools = within(inputs, "agentPoolProfiles")
    if pools is UNKNOWN:
        return
    if not any(within(pool, "mode") in {"System", UNKNOWN} for pool in pools or ()):
        yield Finding("agentPoolProfiles", "has no pool with mode: System; a cluster needs one")


def _pool_names(inputs: Inputs) -> Iterator[Finding]:
    names = [within(pool, "name") for pool in listed(inputs, "agentPoolProfiles")]
    for index, name in enumerate(names):
        if isinstance(name, str) and name in names[:index]:
            yield Finding(f"agentPoolProfiles[{index}].name", f"{name!r} is taken by another pool")


def _identity(inputs: Inputs) -> Iterator[Finding]:
    if inputs.get("identity") is None and inputs.get("servicePrincipalProfile") is None:
        yield Finding("identity", "is missing; a cluster needs it or servicePrincipalProfile")


def _named_identity(inputs: Inputs) -> Iterator[Finding]:
    kind, names = (
        within(inputs, "identity", "type"),
        within(inputs, "identity", "userAssignedIdentities"),
    )
    if kind == "UserAssigned" and not names:
        yield Finding("identity.userAssignedIdentities", "is missing; UserAssigned needs one")
    elif names and kind == "SystemAssigned":
        yield Finding("identity.userAssignedIdentities", "is not allowed with SystemAssigned")


def _dns(inputs: Inputs) -> Iterator[Finding]:
    given = [key for key in ("dnsPrefix", "fqdnSubdomain") if inputs.get(key) is not None]
    if len(given) != 1:
        yield Finding("dnsPrefix", "a cluster takes exactly one of dnsPrefix and fqdnSubdomain")


def _entra(inputs: Inputs) -> Iterator[Finding]:
    managed = within(inputs, "aadProfile", "managed")
    if inputs.get("disableLocalAccounts") is True and not managed:
        yield Finding("disableLocalAccounts", "needs aadProfile with managed: true")
    if within(inputs, "aadProfile", "enableAzureRBAC") is True and not managed:
        yield Finding("aadProfile.enableAzureRBAC", "needs managed: true")


def _workload_identity(inputs: Inputs) -> Iterator[Finding]:
    wanted = within(inputs, "securityProfile", "workloadIdentity", "enabled")
    if wanted is True and not within(inputs, "oidcIssuerProfile", "enabled"):
        yield Finding(
            "securityProfile.workloadIdentity", "needs oidcIssuerProfile with enabled: true"
        )


def _ranges(inputs: Inputs) -> Iterator[Finding]:
    at = "apiServerAccessProfile.authorizedIPRanges"
    ranges = listed(inputs, "apiServerAccessProfile", "authorizedIPRanges")
    if ranges and within(inputs, "apiServerAccessProfile", "enablePrivateCluster") is True:
        yield Finding(at, "is not allowed for a private cluster")
    if len(ranges) > _MOST_RANGES:
        yield Finding(at, f"has {len(ranges)} ranges; {_MOST_RANGES} are allowed")
    for index, given in enumerate(ranges):
        if isinstance(given, str) and _network(given) is None:
            yield Finding(
                f"{at}[{index}]",
                f"{given!r} is not allowed; it takes a range that begins with its first address, "
                "such as 137.117.106.88/29",
            )


def _service_addresses(inputs: Inputs) -> Iterator[Finding]:
    profile = inputs.get("networkProfile")
    services = _network(within(inputs, "networkProfile", "serviceCidr"))
    pods = _network(within(inputs, "networkProfile", "podCidr"))
    dns = within(inputs, "networkProfile", "dnsServiceIP")
    if profile is None or services is None:
        return
    if isinstance(dns, str):
        address = IPv4Address(dns)
        if address not in services or address == services[1]:
            yield Finding(
                "networkProfile.dnsServiceIP",
                f"{dns} is not allowed; it takes an address in {services} but not its first",
            )
    if pods is not None and pods.overlaps(services):
        yield Finding("networkProfile.podCidr", f"{pods} overlaps serviceCidr, {services}")


def _dataplane(inputs: Inputs) -> Iterator[Finding]:
    plugin = within(inputs, "networkProfile", "networkPlugin")
    mode = within(inputs, "networkProfile", "networkPluginMode")
    plane = within(inputs, "networkProfile", "networkDataplane")
    policy = within(inputs, "networkProfile", "networkPolicy")
    if mode == "overlay" and plugin != "azure":
        yield Finding("networkProfile.networkPluginMode", "overlay needs networkPlugin: azure")
    if plane == "cilium" and plugin != "azure":
        yield Finding("networkProfile.networkDataplane", "cilium needs networkPlugin: azure")
    if policy == "cilium" and plane != "cilium":
        yield Finding("networkProfile.networkPolicy", "cilium needs networkDataplane: cilium")


def _load_balancer(inputs: Inputs) -> Iterator[Finding]:
    several = len(listed(inputs, "agentPoolProfiles")) > 1
    ranges = listed(inputs, "apiServerAccessProfile", "authorizedIPRanges")
    basic = within(inputs, "networkProfile", "loadBalancerSku") == "basic"
    if basic and (several or ranges):
        yield Finding(
            "networkProfile.loadBalancerSku",
            "basic allows neither several pools nor authorized ranges; it takes standard",
        )


def _support(inputs: Inputs) -> Iterator[Finding]:
    is_long = inputs.get("supportPlan") == "AKSLongTermSupport"
    if is_long and within(inputs, "sku", "tier") not in {"Premium", UNKNOWN}:
        yield Finding("supportPlan", "AKSLongTermSupport needs sku with tier: Premium")


def _network(text: Any) -> IPv4Network | None:
    """Return the range that `text` is; None when it is none, or not known yet."""
    try:
        return IPv4Network(text) if isinstance(text, str) else None
    except ValueError:
        return None


RULES = tuple(
    Rule(name, (CLUSTER,), source, broken)
    for name, source, broken in (
        ("cluster-without-system-pool", f"{_LEARN}use-system-pools", _system_pool),
        ("pool-twice", _REST, _pool_names),
        ("cluster-without-identity", f"{_LEARN}use-managed-identity", _identity),
        ("cluster-identity", f"{_LEARN}use-managed-identity", _named_identity),
        ("cluster-dns", _REST, _dns),
        ("local-accounts-without-entra", f"{_LEARN}manage-local-accounts-managed-azure-ad", _entra),
        ("workload-identity", f"{_LEARN}workload-identity-overview", _workload_identity),
        ("api-ranges", f"{_LEARN}api-server-authorized-ip-ranges#limitations", _ranges),
        ("service-addresses", f"{_LEARN}azure-cni-overlay", _service_addresses),
        ("network-dataplane", f"{_LEARN}azure-cni-powered-by-cilium", _dataplane),
        ("load-balancer", f"{_LEARN}create-node-pools#limitations", _load_balancer),
        ("long-term-support", f"{_LEARN}long-term-support", _support),
    )
)
