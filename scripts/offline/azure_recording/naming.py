"""IDs, and names for resources that the program doesn't name, as azure-native makes them up."""

import hashlib
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from scripts.offline.azure_recording.catalog import ResourceType

_FIXED = {
    # Of these there is one, and its name is known.
    "blobServicesName": "default",
    "managementPolicyName": "default",
}


def named(
    kind: ResourceType, inputs: Mapping[str, Any], before: Mapping[str, Any], urn: str, seed: bytes
) -> dict[str, Any]:
    """Return `inputs` with a name: the program's own, that of last time, or one made up.

    https://www.pulumi.com/docs/iac/concepts/resources/names/#autonaming
    """
    key = kind.name_property
    if key is None or inputs.get(key) is not None:
        return dict(inputs)
    return {**inputs, key: before.get(key) or _FIXED.get(key) or _made_up(key, urn, seed)}


def identity(kind: ResourceType, inputs: Mapping[str, Any], subscription: str) -> str:
    """Return the resource's ID in Azure."""
    parts = {key: str(inputs[key]).strip("/") for key in kind.parameters}
    return kind.path.format(subscriptionId=subscription, **parts)


def _made_up(key: str, urn: str, seed: bytes) -> str:
    digest = hashlib.sha256(seed or secrets.token_bytes(32)).hexdigest()
    if key == "roleAssignmentName":
        return str(uuid.UUID(digest[:32]))
    return f"{urn.rpartition('::')[2]}{digest[:8]}"
