"""The functions of the SDK that the double answers: who is asking, and how to connect."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from scripts.offline.azure_recording.outputs import ENTRA_SERVER, TENANT, principal
from scripts.offline.azure_recording.recording import Record, Recording, Refused
from scripts.offline.azure_recording.session import Session

Arguments = Mapping[str, Any]
_CLIENT = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
"""kubelogin in Entra, everywhere the same: https://azure.github.io/kubelogin/concepts/aks.html"""


class UnservedFunction(LookupError):
    """A function of the SDK that the double knows nothing of."""

    def __init__(self, token: str) -> None:
        super().__init__(
            f"the recording double of azure-native's plugin does not serve the function {token}; "
            f"it serves {', '.join(sorted(_FUNCTIONS))}"
        )


def answer(session: Session, token: str, arguments: Arguments) -> dict[str, Any]:
    """Return what a function of the SDK returns.

    Raises:
        UnservedFunction: it is none of those that the double answers.
        NoAzure: outside of tests, for what only a cluster knows.
        Refused: Azure would refuse.
    """
    function = _FUNCTIONS.get(token.partition(":")[2])
    if function is None:
        raise UnservedFunction(token)
    return function(session, arguments)


def _who(session: Session, _arguments: Arguments) -> dict[str, Any]:
    return {
        "clientId": principal("", "client"),
        "objectId": principal("", "object"),
        "subscriptionId": session.subscription,
        "tenantId": TENANT,
    }


def _of_user(session: Session, arguments: Arguments) -> dict[str, Any]:
    recording, cluster = _managed(session, arguments)
    name = "clusterUser"
    if not (cluster.inputs.get("aadProfile") or {}).get("managed"):
        return {"kubeconfigs": [_listed(name, _with_certificate(recording))]}
    if arguments.get("format") != "exec":
        raise Refused("BadRequest: kubelogin takes a kubeconfig with the format exec")
    return {"kubeconfigs": [_listed(name, _with_kubelogin(recording))]}


def _of_admin(session: Session, arguments: Arguments) -> dict[str, Any]:
    recording, cluster = _managed(session, arguments)
    if cluster.inputs.get("disableLocalAccounts"):
        raise Refused(
            "BadRequest: Getting static credential is not allowed because this cluster is set to "
            "disable local accounts"
        )
    return {"kubeconfigs": [_listed("clusterAdmin", _with_certificate(recording))]}


def _of_local_user(session: Session, arguments: Arguments) -> dict[str, Any]:
    return _of_instance(session, arguments, "clusterUser", _with_kubelogin)


def _of_local_admin(session: Session, arguments: Arguments) -> dict[str, Any]:
    return _of_instance(session, arguments, "clusterAdmin", _with_certificate)


def _of_instance(
    session: Session, arguments: Arguments, name: str, made: Callable[[Recording], str]
) -> dict[str, Any]:
    """Return a kubeconfig in the form of AKS on Azure Local.

    https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/list-user-kubeconfig
    """
    cluster = str(arguments["connectedClusterResourceUri"])
    recording = session.lent(f"the kubeconfig of {cluster}")
    instance = (
        f"{cluster}/providers/Microsoft.HybridContainerService/provisionedClusterInstances/default"
    )
    if recording.find(instance) is None:
        raise Refused(f"ResourceNotFound: {instance} is not there")
    recording.note("list credentials", id=cluster, name=name)
    return {
        "id": instance,
        "name": name,
        "resourceId": instance,
        "status": "Succeeded",
        "properties": {"kubeconfigs": [_listed(name, made(recording))]},
    }


def _managed(session: Session, arguments: Arguments) -> tuple[Recording, Record]:
    group, name = arguments["resourceGroupName"], arguments["resourceName"]
    resource_id = (
        f"/subscriptions/{session.subscription}/resourceGroups/{group}"
        f"/providers/Microsoft.ContainerService/managedClusters/{name}"
    )
    recording = session.lent(f"the kubeconfig of {resource_id}")
    cluster = recording.find(resource_id)
    if cluster is None:
        raise Refused(f"ResourceNotFound: {resource_id} is not there")
    recording.note("list credentials", id=resource_id, format=arguments.get("format"))
    return recording, cluster


def _listed(name: str, text: str) -> dict[str, str]:
    return {"name": name, "value": base64.b64encode(text.encode()).decode()}


def _with_certificate(recording: Recording) -> str:
    return recording.kubeconfig.read_text()


def _with_kubelogin(recording: Recording) -> str:
    """Return the kubeconfig as AKS lists it: with a login that waits for a person's browser."""
    document: dict[str, Any] = yaml.safe_load(recording.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": "kubelogin",
                "args": ["get-token", "--environment", "AzurePublicCloud",
                         "--server-id", ENTRA_SERVER, "--client-id", _CLIENT,
                         "--tenant-id", TENANT, "--login", "devicecode"],
                "env": None,
                "installHint": "https://aka.ms/aks/kubelogin",
                "provideClusterInfo": False,
            }
        }  # fmt: skip
    return yaml.safe_dump(document)


_FUNCTIONS: Mapping[str, Callable[[Session, Arguments], dict[str, Any]]] = {
    "authorization:getClientConfig": _who,
    "containerservice:listManagedClusterUserCredentials": _of_user,
    "containerservice:listManagedClusterAdminCredentials": _of_admin,
    "hybridcontainerservice:listProvisionedClusterInstanceUserKubeconfig": _of_local_user,
    "hybridcontainerservice:listProvisionedClusterInstanceAdminKubeconfig": _of_local_admin,
}
