"""Extract one context from the user's kubeconfig, as a kubeconfig that works in any directory."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pulumi
import yaml

from core import kube, toolchain
from core.problem import choices, quote
from core.process import CommandFailed, run

_FOR_EXEC = "client.authentication.k8s.io/exec"
"""The only cluster extension that credentials depend on
(https://kubernetes.io/docs/reference/config-api/client-authentication.v1/#client-authentication-k8s-io-v1-Cluster)."""


class Unusable(pulumi.RunError):
    """The cluster can't be used. `key` is the setting to change, or empty if none or several."""

    def __init__(self, key: str, text: str) -> None:
        place = f"slipway:cluster.{key}" if key else "slipway:cluster"
        # A text about inline content names its setting instead.
        super().__init__(text if text.startswith("slipway:cluster.") else f"{place}: {text}")


class Absent(Unusable):
    """The file or context is missing, so the cluster is unreachable or no longer exists."""


@dataclass(frozen=True)
class Choice:
    """The chosen context; `kubeconfig`, a secret, is YAML that contains only this context."""

    context: str
    server: str
    files: str
    """The files that contain the context, for messages."""
    kubeconfig: str = field(repr=False)
    path: str | None = None
    """The file in the settings, or None for kubectl's default."""


def kubectl(path: str | None, context: str | None) -> str:
    """Return the kubectl command for a kubeconfig and context, to be pasted into a shell."""
    named = [] if path is None else ["--kubeconfig", str(Path(path).expanduser())]
    chosen = [] if context is None else ["--context", context]
    return shlex.join(["kubectl", *named, *chosen])


def choose(
    path: str | None, context: str | None, content: str | Mapping[str, Any] | None = None
) -> Choice:
    """Return a context, with the contents of the files that it refers to inlined.

    `path` defaults to kubectl's kubeconfig, and `context` to its current context. `content`, if
    set, replaces the file. A token file is not inlined: it is rewritten before the token expires.

    Raises `Absent` if the file or context is missing, and `Unusable` if the context can't be used.
    """
    if content is None:
        files = _files(path)
        return _chosen(files, os.pathsep.join(map(str, files)), path, context)
    with TemporaryDirectory() as folder:  # no other user can read it
        file = Path(folder, "kubeconfig")
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return _chosen([file], "slipway:cluster.kubeconfig", None, context)


def _chosen(files: Sequence[Path], shown: str, path: str | None, context: str | None) -> Choice:
    """Return a context from these files; `shown` is how messages refer to the files."""
    merged = _view(files, shown)
    if not (names := [each["name"] for each in merged["contexts"] or ()]):
        raise Absent("path", f"{shown} does not contain a context; specify a different one")
    name = merged["current-context"] if context is None else context
    if not name:
        raise Absent(
            "context", f"is not set, and {shown} has no current context; {choices('', names)}"
        )
    if name not in names:
        where = "" if context is not None else ", the current context,"
        raise Absent("context", f"{quote(name)}{where} is not in {shown}; {choices(name, names)}")
    document = _view(files, shown, "--raw", "--minify", "--flatten", f"--context={name}")
    if not (document["clusters"] and document["users"]):
        raise Unusable("context", f"{quote(name)} in {shown} needs a cluster and a user; set both")
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]
    # Other extensions, such as minikube's timestamps, change.
    extensions = cluster.pop("extensions", None) or ()
    if kept := [each for each in extensions if each["name"] == _FOR_EXEC]:
        cluster["extensions"] = kept
    credentials = _portable(user["user"] or {}, _folder_of(user["name"], files))
    if "auth-provider" in credentials:
        provider = quote(credentials["auth-provider"].get("name"))
        raise Unusable(
            "context",
            f"{quote(name)} in {shown}: its user authenticates with the auth-provider {provider}, "
            "which Kubernetes clients no longer support; create a kubeconfig whose user has an "
            "`exec` command instead (for Azure: `kubelogin convert-kubeconfig`)",
        )
    called = document["contexts"][0]["context"]
    content = kube.kubeconfig(
        name, cluster, credentials, cluster_name=called["cluster"], user_name=called["user"]
    )
    return Choice(name, cluster["server"], shown, content, path)


def _files(path: str | None) -> list[Path]:
    """Return the existing files among those that kubectl would read."""
    named = [path] if path is not None else os.environ.get("KUBECONFIG", "").split(os.pathsep)
    paths = [each for each in named if each] or ["~/.kube/config"]
    candidates = [Path(each).expanduser().absolute() for each in paths]
    if existing := [each for each in candidates if each.is_file()]:
        return existing
    listed = ", ".join(map(str, candidates))
    hint = "" if path is not None else " Set a kubeconfig's path here, or in KUBECONFIG."
    raise Absent("path", f"{listed}: no such file.{hint}")


def _view(files: Sequence[Path], shown: str, *flags: str) -> Any:
    """Return the merged content of the files, as kubectl prints it. The files are not changed."""
    command = (str(toolchain.path("kubectl")), "config", "view", "--output=json", *flags)
    try:
        listed = os.pathsep.join(map(str, files))
        return json.loads(run(*command, variables={"KUBECONFIG": listed}))
    except CommandFailed as error:
        reason = str(error).rpartition("error: ")[2]
        raise Unusable("path", f"{shown} can't be read by kubectl: {reason}; correct it") from None


def _folder_of(user: str, files: Sequence[Path]) -> Path:
    """Return the folder of the first file that contains `user`; the user's paths start there."""
    for file in files:
        users = (yaml.safe_load(file.read_text()) or {}).get("users") or ()
        if any(each["name"] == user for each in users):
            return file.parent
    return Path()


def _portable(user: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return credentials with paths, which are relative to `folder`, made absolute."""
    credentials = {key: value for key, value in user.items() if key != "extensions"}
    if "tokenFile" in credentials:
        credentials["tokenFile"] = str((folder / credentials["tokenFile"]).absolute())
    if "exec" in credentials:
        program = {key: value for key, value in credentials["exec"].items() if value is not None}
        if os.sep in program.get("command", ""):  # else it is on PATH
            program["command"] = os.path.normpath(folder.absolute() / program["command"])
        credentials["exec"] = program
    return credentials
