"""The kubeconfig that Azure lists, changed so that kubelogin logs in without a browser. Pure."""

from __future__ import annotations

from typing import Any, Literal

import yaml

Login = Literal["azurecli", "workloadidentity", "spn", "msi"]
_KEPT = {
    # What `kubelogin convert-kubeconfig` keeps for each way to log in:
    # https://github.com/Azure/kubelogin/blob/main/pkg/internal/converter/convert.go
    "azurecli": (),
    "msi": (),
    "spn": ("--tenant-id", "--environment"),
    "workloadidentity": (),
}
HINT = (
    "kubelogin logs in to the cluster with your own account: install it with `az aks install-cli` "
    "(https://azure.github.io/kubelogin), then `az login`"
)


class KubeconfigError(ValueError):
    """Azure returned a kubeconfig that kubelogin can't log in with; the text says what to do."""


def logging_in(text: str, login: Login) -> str:
    """Return the kubeconfig with kubelogin logging in that way.

    Azure's own waits until somebody types a code into a browser, which `pulumi up` can't do.

    Args:
        text: YAML, as Azure lists it with the format `exec`.
        login: `azurecli`: as whoever is logged in with `az login`. `workloadidentity`, `spn` and
            `msi` are for pipelines.

    Raises:
        KubeconfigError: a user in it has anything else than kubelogin to log in with.
    """
    document: dict[str, Any] = yaml.safe_load(text)
    for user in document["users"]:
        user["user"] = {"exec": _exec(user["name"], user["user"], login)}
    return yaml.safe_dump(document, sort_keys=False)


def _exec(name: str, credentials: dict[str, Any], login: Login) -> dict[str, Any]:
    given = credentials.get("exec")
    if given is None or credentials.keys() - {"exec"}:
        found = ", ".join(sorted(credentials))
        raise KubeconfigError(
            f"the kubeconfig of {name} has {found} in it, not kubelogin alone: is the cluster "
            "without Entra, or are its local accounts on? With adminKubeconfig: true those are used"
        )
    flags = dict(zip(given["args"][1::2], given["args"][2::2], strict=False))
    if "--server-id" not in flags:
        raise KubeconfigError(
            f"the kubeconfig of {name} does not say for which server a token is (--server-id): "
            "run `pulumi refresh`, then `pulumi up` again"
        )
    kept = [part for flag in _KEPT[login] if flag in flags for part in (flag, flags[flag])]
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin",
        "args": ["get-token", "--login", login, "--server-id", flags["--server-id"], *kept],
        "env": None,
        "installHint": HINT,
        # A question would never be answered.
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }
