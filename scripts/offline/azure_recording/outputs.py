"""What a resource has once it is there, as far as its inputs and its ID tell: the rest is made up.

Made-up values are the same each time, so that reading a resource again shows no change.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from core.values import UNKNOWN
from scripts.offline.azure_recording import sdk
from scripts.offline.azure_recording.shapes import (
    Choice,
    ListOf,
    MapOf,
    Object,
    Scalar,
    Shape,
    findings,
)

TENANT = "00000000-0000-0000-0000-0000000000ff"
"""Of everybody: whose it is, no double can know."""
ENTRA_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""AKS in Entra, everywhere the same: https://azure.github.io/kubelogin/concepts/aks.html"""


def previewed(token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs before the resource is there: its inputs, and what isn't known yet."""
    shape = sdk.outputs_of(token)
    return {key: _echo(inputs.get(key, UNKNOWN), each) for key, each in shape.properties.items()}


def outputs(token: str, resource_id: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of the resource with that ID."""
    shape = sdk.outputs_of(token)
    told = {
        "name": resource_id.rpartition("/")[2],
        "type": _type_of(resource_id),
        "azureApiVersion": sdk.api_version(token),
    }
    found = _complete(dict(inputs), shape, resource_id, "")
    found |= {key: value for key, value in told.items() if key in shape.properties}
    special = _SPECIAL.get(token.partition(":")[2])
    return found if special is None else found | special(resource_id, inputs)


def principal(resource_id: str, part: str) -> str:
    """Return a GUID that stands for `part` of a resource."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{resource_id}#{part}"))


def _echo(value: Any, shape: Shape) -> Any:
    """Return an input as the output of that name, unless the two are different things.

    What the program left out inside of it isn't known yet either.
    """
    if any(findings(value, _loose(shape))):
        return UNKNOWN
    if isinstance(shape, Object) and isinstance(value, Mapping):
        return {key: _echo(value.get(key, UNKNOWN), each) for key, each in shape.properties.items()}
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [_echo(item, shape.item) for item in value]
    return value


def _loose(shape: Shape) -> Shape:
    """Return `shape` with nothing that has to be there: what is left out, the service adds."""
    if isinstance(shape, Object):
        return Object(
            lambda: {key: (_loose(each), False) for key, each in shape.properties.items()}
        )
    if isinstance(shape, ListOf):
        return ListOf(_loose(shape.item))
    return MapOf(_loose(shape.value)) if isinstance(shape, MapOf) else shape


def _complete(given: Mapping[str, Any], shape: Object, seed: str, at: str) -> dict[str, Any]:
    found = {}
    for key, each in shape.properties.items():
        if key in given and not any(findings(given[key], _loose(each))):
            found[key] = _deeper(given[key], each, seed, f"{at}.{key}")
        elif key in shape.required:
            found[key] = _made_up(each, seed, f"{at}.{key}")
    return found


def _deeper(value: Any, shape: Shape, seed: str, at: str) -> Any:
    if isinstance(shape, Object) and isinstance(value, Mapping):
        return _complete(value, shape, seed, at)
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [_deeper(item, shape.item, seed, f"{at}[]") for item in value]
    return value


def _made_up(shape: Shape, seed: str, at: str) -> Any:
    if isinstance(shape, Object):
        return _complete({}, shape, seed, at)
    if isinstance(shape, ListOf | MapOf):
        return [] if isinstance(shape, ListOf) else {}
    if isinstance(shape, Choice):
        return shape.values[0]
    if isinstance(shape, Scalar) and shape.type is not str:
        return shape.type()
    name = at.rpartition(".")[2]
    if name.endswith(("Id", "UUID", "Guid")):
        return TENANT if name == "tenantId" else principal(seed, at)
    return {"provisioningState": "Succeeded"}.get(name, f"recorded{at}")


def _type_of(resource_id: str) -> str:
    parts = resource_id.rpartition("/providers/")[2].split("/")
    if "/providers/" not in resource_id:
        return "Microsoft.Resources/resourceGroups"
    return "/".join([parts[0], *parts[1::2]])


def _identity(resource_id: str, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "principalId": principal(resource_id, "principal"),
        "clientId": principal(resource_id, "client"),
        "tenantId": TENANT,
    }


def _cluster(resource_id: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    name = f"{inputs.get('dnsPrefix') or inputs.get('fqdnSubdomain')}-recorded"
    issuer = f"https://{inputs.get('location')}.oic.prod-aks.azure.com/{TENANT}/recorded/"
    given = inputs.get("identity") or {}
    identity = {
        key: {"clientId": principal(key, "client"), "principalId": principal(key, "principal")}
        for key in given.get("userAssignedIdentities") or ()
    }
    profile = inputs.get("oidcIssuerProfile") or {}
    issued = {"issuerURL": issuer if profile.get("enabled") else ""}
    return {
        "fqdn": f"{name}.hcp.{inputs.get('location')}.azmk8s.io",
        "currentKubernetesVersion": inputs.get("kubernetesVersion") or "1.34",
        "oidcIssuerProfile": {**profile, **issued},
        "identity": {**given, "userAssignedIdentities": identity, "tenantId": TENANT,
                     "principalId": principal(resource_id, "principal")},
        "powerState": {"code": "Running"},
    }  # fmt: skip


def _registry(resource_id: str, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"loginServer": f"{resource_id.rpartition('/')[2].lower()}.azurecr.io"}


def _storage(resource_id: str, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    name = resource_id.rpartition("/")[2]
    kinds = ("blob", "dfs", "file", "queue", "table", "web")
    endpoints = {kind: f"https://{name}.{kind}.core.windows.net/" for kind in kinds}
    return {"primaryEndpoints": endpoints}


_SPECIAL: Mapping[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "managedidentity:UserAssignedIdentity": _identity,
    "containerservice:ManagedCluster": _cluster,
    "containerregistry:Registry": _registry,
    "storage:StorageAccount": _storage,
}
"""What programs take from a resource, and tests look at."""
