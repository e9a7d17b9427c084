"""Settings for access to an AKS cluster: its API server, administrators and address ranges."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from clusters.azure.settings import DISTINCT, Guid, Login, parsed, resource_id, text_field
from core.fields import CONFIG
from core.problem import Contradiction, contradiction, quote

Addresses = Annotated[str, text_field("addresses"), parsed(IPv4Network)]
SubnetId = Annotated[str, resource_id("Microsoft.Network/virtualNetworks/subnets", "a subnet's ID")]
Ranges = Annotated[tuple[Addresses, ...], text_field("ranges")]
Guids = Annotated[tuple[Guid, ...], DISTINCT]
Principal = Literal["Group", "User", "ServicePrincipal"]
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_PREFIXES = {"addresses": (8, 29), "nodes": (8, 29), "pods": (0, 32), "services": (13, 28)}
"""The shortest and the longest allowed prefix length for each range.

The cluster's DNS Service gets the eleventh address in `services`. Sources:

https://learn.microsoft.com/azure/aks/concepts-network-ip-address-planning and
https://learn.microsoft.com/azure/virtual-network/virtual-networks-faq
"""


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Api:
    """Access to the cluster's API server; exactly one of the two settings is required.

    Args:
        authorized_ranges: The only public address ranges that can reach the API server.
        private: Make the API server reachable only from the cluster's network, where you then run
            `pulumi up`.
    """

    authorized_ranges: Ranges = ()
    private: bool = False

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield settings that contradict each other or open the API server to everyone."""
        ranges = self.authorized_ranges
        if self.private == bool(ranges):
            neither = "with neither, the whole internet could reach the API server"
            both = "a private API server has no public address to restrict; remove either setting"
            why = both if self.private else neither
            text = f"must have exactly one of authorizedRanges and private: true; {why}"
            yield contradiction(("api",), text)
        for index, each in enumerate(ranges):
            network, wrong = IPv4Network(each), ""
            if network.prefixlen < 8:
                wrong = "is too large; at most a /8 is allowed"
            elif any(map(network.overlaps, _PRIVATE)):
                wrong = "is not a public range; with private: true, no ranges are needed"
            if wrong:
                yield contradiction(("api", "authorizedRanges", index), f"{quote(each)} {wrong}")


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Admins:
    """The cluster's administrators, by their object IDs in Entra.

    The account that runs `pulumi up` must be one of them; by default, it is the only one.

    Args:
        groups: Object IDs of groups, from `az ad group show --group NAME --query id`.
        users: Object IDs of users; `az ad signed-in-user show --query id` prints yours.
        service_principals: Object IDs of service principals, from `az ad sp show --id APP --query
            id`.
    """

    groups: Guids = ()
    users: Guids = ()
    service_principals: Guids = ()

    @property
    def by_kind(self) -> dict[Principal, tuple[str, ...]]:
        """The administrators' object IDs, keyed by Azure's principal type."""
        return {
            "Group": self.groups,
            "User": self.users,
            "ServicePrincipal": self.service_principals,
        }

    def contradictions(self, login: Login) -> Iterator[Contradiction]:
        """Yield a problem if there are no administrators and the login method needs some."""
        if login != "azurecli" and not any(self.by_kind.values()):
            text = f"is missing; with `login: {login}` it must contain that account's object ID"
            yield contradiction(("admins",), text, "login")


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Network:
    """The cluster's address ranges; those for the network, pods and Services must not overlap.

    Args:
        addresses: Address range of the virtual network.
        nodes: Address range of the subnet for nodes, within `addresses`.
        pods: Address range for pods, outside the virtual network.
        services: Address range for Services.
        subnet: ID of an existing subnet to use instead of creating a virtual network.
    """

    addresses: Addresses = "10.40.0.0/16"
    nodes: Addresses = "10.40.0.0/20"
    pods: Addresses = "10.244.0.0/16"
    services: Addresses = "10.41.0.0/16"
    subnet: SubnetId | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield ranges that are too large, too small, misplaced or overlapping."""
        fitting: dict[str, IPv4Network] = {}
        for name, (largest, smallest) in _PREFIXES.items():
            parsed = IPv4Network(getattr(self, name))
            if largest <= parsed.prefixlen <= smallest:
                fitting[name] = parsed
            else:
                text = f"{parsed} is not allowed; its prefix length must be {largest} to {smallest}"
                yield contradiction(("network", name), text)
        for (one, outer), (other, inner) in combinations(fitting.items(), 2):
            if (one, other) == ("addresses", "nodes"):
                if not inner.subnet_of(outer):
                    text = f"{inner} is not within {outer}, the range in `addresses`"
                    yield contradiction(("network", "nodes"), text, "network.addresses")
            elif one != "nodes" and inner.overlaps(outer):
                text = f"{inner} overlaps `{one}`, {outer}; choose another range"
                yield contradiction(("network", other), text, f"network.{one}")
