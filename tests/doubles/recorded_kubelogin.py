"""kubelogin for tests: refuses what the real one refuses.

`convert-kubeconfig` keeps of a login's flags what the real one keeps:
https://github.com/Azure/kubelogin/blob/main/pkg/internal/converter/convert.go.
`get-token` returns the client certificate of the kubeconfig in the double's directory
(SLIPWAY_AZURE_DOUBLE), so that the kubeconfig's way to log in, by a program, is the one in use.
While roles are late there, it returns a token of an account that may do nothing.
Its flags are those of https://azure.github.io/kubelogin/cli/get-token.html.
"""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml

SERVERS = ("6dae42f8-4368-4678-94ff-3960e28e3630",)  # AKS in Entra, everywhere the same
_LOGINS = ("devicecode", "interactive", "spn", "ropc", "msi", "azurecli", "azd", "workloadidentity")
_VALUES = ("--authority-host", "--client-certificate", "--client-certificate-password",
           "--client-id", "--client-secret", "--environment", "--federated-token-file",
           "--identity-resource-id", "--kubeconfig", "--login", "--password", "--pop-claims",
           "--server-id", "--tenant-id", "--token-cache-dir", "--username")  # fmt: skip
_SWITCHES = ("--legacy", "--pop-enabled", "--use-azurerm-env-vars")


def main() -> None:
    """Print an ExecCredential, or convert a kubeconfig."""
    if sys.argv[1:2] not in (["get-token"], ["convert-kubeconfig"]):
        refuse(f"unknown command {sys.argv[1:2]} for kubelogin")
    flags = parsed(sys.argv[2:])
    login = flags.get("--login", "devicecode")
    if sys.argv[1] == "convert-kubeconfig":
        convert(Path(flags["--kubeconfig"]), login, flags)
        return
    if login not in _LOGINS:
        refuse(f"'{login}' is not a supported login method. Supported: {', '.join(_LOGINS)}")
    if login in {"devicecode", "interactive"}:
        refuse(f"the login method {login} waits for a person, and there is none")
    if flags.get("--server-id") not in SERVERS:
        refuse(f"AADSTS500011: there is no resource {flags.get('--server-id')}")
    directory = Path(os.environ["SLIPWAY_AZURE_DOUBLE"])
    with (directory / "logins").open("a") as file:
        file.write(f"{login}\n")
    late = directory / "late-roles"
    logins = int(late.read_text()) if late.exists() else 0
    if logins:
        late.write_text(str(logins - 1))
    cluster = directory / "cluster.kubeconfig"
    sys.stdout.write(json.dumps(credential(powerless(cluster) if logins else certificate(cluster))))


def convert(file: Path, login: str, flags: dict[str, str]) -> None:
    """Replace each user's way to log in by kubelogin, in a kubeconfig."""
    document = yaml.safe_load(file.read_text())
    for user in document["users"]:
        given = parsed(user["user"]["exec"]["args"][1:]) | flags
        if "--server-id" not in given:
            refuse("--server-id is required")
        kept = {
            "azurecli": ["--tenant-id"] if "--tenant-id" in flags else [],
            "workloadidentity": ["--tenant-id"] if "--tenant-id" in flags else [],
            "spn": ["--client-id", "--tenant-id", "--environment", "--pop-enabled", "--pop-claims"],
        }.get(login, [])
        words = ["get-token", "--login", login, "--server-id", given["--server-id"]]
        for flag in filter(given.__contains__, kept):
            words += [flag] if flag in _SWITCHES else [flag, given[flag]]
        version = "client.authentication.k8s.io/v1beta1"
        user["user"]["exec"] = {"apiVersion": version, "command": "kubelogin", "args": words}
    file.write_text(yaml.safe_dump(document))


def install(directory: Path) -> None:
    """Write `kubelogin` into a directory."""
    program = directory / "kubelogin"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    program.chmod(0o755)


def parsed(arguments: list[str]) -> dict[str, str]:
    """Return the flags with their values."""
    found: dict[str, str] = {}
    waiting = list(arguments)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if name in _SWITCHES:
            found[name] = value or "true"
        elif name in _VALUES and (equals or waiting):
            found[name] = value if equals else waiting.pop(0)
        else:
            refuse(f"unknown flag: {name}")
    return found


def certificate(kubeconfig: Path) -> dict[str, str]:
    """Return the login of the cluster's administrator."""
    [user] = yaml.safe_load(kubeconfig.read_text())["users"]
    keys = {"clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data"}
    return {key: base64.b64decode(user["user"][its]).decode() for key, its in keys.items()}


def powerless(kubeconfig: Path) -> dict[str, str]:
    """Return the login of an account that the cluster knows, and that has no role in it."""
    from kubernetes import client, config  # noqa: PLC0415  # slow, and needed here alone

    loaded = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    made: Any = client.CoreV1Api(loaded).create_namespaced_service_account_token(
        "default", "default", asked, _request_timeout=20
    )
    return {"token": str(made.status.token)}


def credential(status: dict[str, str]) -> dict[str, Any]:
    """Return what the program that asked takes: https://kubernetes.io/docs/reference/config-api/."""
    asked = json.loads(os.environ.get("KUBERNETES_EXEC_INFO", "{}"))
    version = asked.get("apiVersion", "client.authentication.k8s.io/v1beta1")
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def refuse(message: str) -> NoReturn:
    """End with an error."""
    sys.exit(f"Error: {message}")


if __name__ == "__main__":
    main()
