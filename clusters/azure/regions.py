"""Names of Azure's regions, to tell a misspelt one."""

import re
from difflib import SequenceMatcher

_KNOWN = frozenset(
    [
        "australiacentral",
        "australiacentral2",
        "australiaeast",
        "australiasoutheast",
        "austriaeast",
        "belgiumcentral",
        "brazilsouth",
        "brazilsoutheast",
        "canadacentral",
        "canadaeast",
        "centralindia",
        "centralus",
        "chilecentral",
        "denmarkeast",
        "eastasia",
        "eastus",
        "eastus2",
        "francecentral",
        "francesouth",
        "germanynorth",
        "germanywestcentral",
        "indonesiacentral",
        "israelcentral",
        "italynorth",
        "japaneast",
        "japanwest",
        "jioindiacentral",
        "jioindiawest",
        "koreacentral",
        "koreasouth",
        "malaysiawest",
        "mexicocentral",
        "newzealandnorth",
        "northcentralus",
        "northeurope",
        "norwayeast",
        "norwaywest",
        "polandcentral",
        "qatarcentral",
        "southafricanorth",
        "southafricawest",
        "southcentralus",
        "southeastasia",
        "southindia",
        "spaincentral",
        "swedencentral",
        "swedensouth",
        "switzerlandnorth",
        "switzerlandwest",
        "uaecentral",
        "uaenorth",
        "uksouth",
        "ukwest",
        "westcentralus",
        "westeurope",
        "westindia",
        "westus",
        "westus2",
        "westus3",
    ]
)
"""https://learn.microsoft.com/azure/reliability/regions-list, at second hand: quoted elsewhere, and
not compared with the page."""
_WHERE_IN = re.compile("north|south|east|west|central|[0-9]+")
"""What tells one region of a country from another: a new one may have any of these."""
_ALIKE = 0.9


def misspelt(name: str) -> str | None:
    """Return the region that is meant by a name that is surely none; None of any other.

    Azure has new ones, so that a name is not wrong for being unknown here.
    """
    if name in _KNOWN or _WHERE_IN.sub("", name) in {_WHERE_IN.sub("", each) for each in _KNOWN}:
        return None
    likest = max(_KNOWN, key=lambda known: SequenceMatcher(None, name, known).ratio())
    return likest if SequenceMatcher(None, name, likest).ratio() >= _ALIKE else None
