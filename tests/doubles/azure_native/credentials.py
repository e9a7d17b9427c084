"""A token, and a cluster's kubeconfig: that of the cluster behind, with another login.

https://learn.microsoft.com/rest/api/aks/managed-clusters/list-cluster-user-credentials
"""

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from tests.doubles.azure_native.resources import TENANT, Unserved
from tests.doubles.azure_native.store import Refused, Store

_CLIENT = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
"""kubelogin in Entra, everywhere the same: https://azure.github.io/kubelogin/concepts/aks.html"""
_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""AKS in Entra, everywhere the same."""
_ON_AKS = "azure-native:containerservice:listManagedClusterUserCredentials"
_CLIENT_TOKEN = "azure-native:authorization:getClientToken"
TOKEN = "the token of whoever is logged in"


def list_credentials(
    store: Store, subscription: str, function: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the SDK's function returns."""
    if function == _ON_AKS:
        cluster = (
            f"/subscriptions/{subscription}/resourceGroups/{arguments['resourceGroupName']}"
            f"/providers/Microsoft.ContainerService/managedClusters/{arguments['resourceName']}"
        )
        profile = store.get(cluster).inputs.get("aadProfile") or {}
        if not profile.get("managed") or arguments.get("format") != "exec":
            raise Refused("BadRequest: kubelogin takes a cluster with Entra and the format exec")
        store.note("list credentials", id=cluster, format=arguments.get("format"))
        return {"kubeconfigs": [kubeconfig(store)]}
    if function == _CLIENT_TOKEN:
        return {"token": TOKEN}
    raise Unserved(f"the function {function}")


def kubeconfig(store: Store) -> dict[str, str]:
    """Return the kubeconfig as AKS lists it: with a login that waits for a person's browser."""
    document: dict[str, Any] = yaml.safe_load(store.kubeconfig.read_text())
    words = f"get-token --environment AzurePublicCloud --server-id {_SERVER} --client-id {_CLIENT}"
    login = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin",
        "args": f"{words} --tenant-id {TENANT} --login devicecode".split(),
        "env": None,
        "installHint": "https://aka.ms/aks/kubelogin",
        "provideClusterInfo": False,
    }
    for user in document["users"]:
        user["user"] = {"exec": login}
    text = yaml.safe_dump(document)
    return {"name": "clusterUser", "value": base64.b64encode(text.encode()).decode()}
