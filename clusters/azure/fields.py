"""The kinds of values that the settings of an AKS cluster have, each with what it takes in words.

Azure's rules for names:
https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
"""

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

CONFIG = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True)
"""Of every dataclass: keys are camelCase, and one that is not known is refused."""

ClusterName = Annotated[
    str,
    Field(
        pattern="^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$",
        description="at most 40 of a-z, 0-9 and -, beginning with a letter and ending with no -",
    ),
]
ResourceGroupName = Annotated[
    str,
    Field(
        # Its nodes' group is called so with `-nodes` behind, and may have 80 characters.
        pattern=r"^[A-Za-z0-9_()-][A-Za-z0-9_().-]{0,72}[A-Za-z0-9_()-]$",
        description="2 to 74 letters, digits, and -_(). with no . first or last",
    ),
]
RegistryName = Annotated[
    str,
    Field(pattern="^[a-zA-Z0-9]{5,50}$", description="5 to 50 letters and digits"),
]
StorageName = Annotated[
    str,
    Field(pattern="^[a-z0-9]{3,24}$", description="3 to 24 of a-z and 0-9"),
]
Guid = Annotated[
    str,
    Field(
        pattern="^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        description="an ID such as 01234567-89ab-cdef-0123-456789abcdef",
    ),
]
Location = Annotated[
    str,
    Field(
        pattern="^[a-z]+[a-z0-9]*$",
        description="a region as `az account list-locations` names it, such as westeurope",
    ),
]
Size = Annotated[
    str,
    Field(
        pattern="^Standard_[A-Za-z0-9_-]+$",
        description="a size of virtual machines, such as Standard_NC4as_T4_v3",
    ),
]
Zone = Annotated[str, Field(pattern="^[1-3]$", description='a zone of the region: "1", "2" or "3"')]
Version = Annotated[
    str,
    Field(
        pattern=r"^1\.[0-9]{2}(\.[0-9]+)?$",
        description="a version of Kubernetes, such as 1.34, or 1.34.2 for no other",
    ),
]
Ranges = Annotated[
    str,
    Field(
        pattern=r"^[0-9.]+/[0-9]{1,2}$",
        description="addresses in CIDR notation, such as 192.0.2.0/24",
    ),
]
Reference = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9.:-]*/[^\s@]+(:[^\s@/]+|@sha256:[0-9a-f]{64})$",
        description="an image's full name, such as example.azurecr.io/trainer:1 or …@sha256:…",
    ),
]
SubnetId = Annotated[
    str,
    Field(
        pattern=r"(?i)^/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+"
        r"/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$",
        description="a subnet's ID: /subscriptions/…/providers/Microsoft.Network/virtualNetworks/…"
        "/subnets/…",
    ),
]
Email = Annotated[
    str,
    Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="an address such as you@example.org"),
]
Dollars = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False, description="a number above 0"),
]
LabelKey = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        description="a label's key, such as example.org/team",
    ),
]
LabelValue = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        description="a label's value: at most 63 letters, digits and -_.",
    ),
]
# https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations
TagKey = Annotated[
    str,
    Field(
        pattern=r"^[^<>%&\\?/]{1,128}$", description=r"at most 128 characters and none of <>%&\?/"
    ),
]
TagValue = Annotated[str, Field(max_length=256, description="text of at most 256 characters")]
