"""Values that only an AKS cluster on Azure Local has, each with what it takes in words."""

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated

from pydantic import AfterValidator, Field

_ADDRESS = "an IPv4 address, such as 10.20.0.10"
_PREFIX = "an IPv4 network in CIDR notation, such as 10.20.0.0/24"


def _address(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(_ADDRESS) from None


def _prefix(text: str) -> str:
    try:
        return str(IPv4Network(text, strict=False))
    except ValueError:
        raise ValueError(_PREFIX) from None


Address = Annotated[str, Field(description=_ADDRESS), AfterValidator(_address)]
Prefix = Annotated[str, Field(description=_PREFIX), AfterValidator(_prefix)]
CustomLocation = Annotated[
    str,
    Field(
        pattern=r"(?i)^/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+"
        r"/providers/Microsoft\.ExtendedLocation/customLocations/[^/]+$",
        description="the ID that `az customlocation show --query id` prints: /subscriptions/…"
        "/providers/Microsoft.ExtendedLocation/customLocations/…",
    ),
]
LogicalNetworkId = Annotated[
    str,
    Field(
        pattern=r"(?i)^/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+"
        r"/providers/Microsoft\.AzureStackHCI/logicalNetworks/[^/]+$",
        description="the ID of a logical network that is there: /subscriptions/…"
        "/providers/Microsoft.AzureStackHCI/logicalNetworks/…",
    ),
]
PublicKey = Annotated[
    str,
    Field(
        pattern=r"^ssh-rsa [A-Za-z0-9+/]+={0,3}( \S.*)?$",
        description="the line of an RSA public key, as in ~/.ssh/id_rsa.pub: ssh-rsa AAAA…",
    ),
]
# https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
PoolNodes = Annotated[
    int,
    Field(
        ge=1,
        le=64,
        description="a whole number from 1 to 64: AKS on Azure Local has no empty node pools",
    ),
]
Host = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:[0-9]{1,5})?$",
        description="a host name with no https:// before it, such as "
        "armmanagement.autonomous.cloud.private",
    ),
]
