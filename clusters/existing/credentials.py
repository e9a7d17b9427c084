"""A kubeconfig's user, made to work from any directory, and whether a program can use it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.text import quote

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


def portable(user: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return `user` with absolute paths; a command without a slash is looked for on PATH.

    Args:
        user: What stands under `users[].user`.
        folder: What its paths count from.
    """
    made = {key: value for key, value in user.items() if key != "extensions"}
    if "tokenFile" in made:
        made["tokenFile"] = str((folder / made["tokenFile"]).absolute())
    if "exec" in made:
        program = {key: value for key, value in made["exec"].items() if value is not None}
        if os.sep in program.get("command", ""):
            program["command"] = os.path.normpath(folder.absolute() / program["command"])
        made["exec"] = program
    return made


def problem(user: Mapping[str, Any]) -> str | None:
    """Return why no program can use these credentials, None when it can."""
    if "auth-provider" in user:
        name = user["auth-provider"].get("name")
        return (
            f"its user logs in by the auth-provider {quote(name)}, which Kubernetes' clients have "
            "dropped; make a kubeconfig whose user has an `exec` command instead (for Azure: "
            "`kubelogin convert-kubeconfig`)"
        )
    return None if "exec" not in user else _of_command(user["exec"])


def _of_command(program: Mapping[str, Any]) -> str | None:
    command = program.get("command", "")
    if program.get("apiVersion") not in _VERSIONS:
        return (
            f"exec.apiVersion {quote(program.get('apiVersion'))} of its user is not one that "
            f"clients know: {', '.join(_VERSIONS)}; have the kubeconfig written anew"
        )
    if program.get("interactiveMode") == "Always":
        return (
            f"its credentials come from {quote(command)}, which has to ask a person "
            "(interactiveMode: Always), and `pulumi up` runs without a terminal; use a login that "
            "asks nobody, such as that of a service account"
        )
    if shutil.which(command) is None:
        place = "not there, or not executable" if os.sep in command else "not on PATH"
        hint = " ".join(str(program.get("installHint", "")).split())
        said = f" Its own hint: {hint}" if hint else ""
        return f"its credentials come from the command {quote(command)}, which is {place}.{said}"
    return None
