"""A stack on a cluster that is somebody else's, run by the real CLI as an account of theirs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from clusters.embedded import pki
from core.paths import CHECKOUT
from tests.engine.cli_stack import WholeStack
from tests.engine.embedded_cluster import KUBECTL_IMAGE, TestCluster, program_images

PLATFORM = "platform"
"""Where the accounts are: the people who look after the cluster have made them."""
_GROUP = "rbac.authorization.k8s.io"


def account(cluster: TestCluster, name: str, role: str, namespace: str | None = None) -> str:
    """Make an account with a role of docs/existing-cluster.md, everywhere or in a namespace.

    Return its token.
    """
    kind = "ClusterRole" if namespace is None else "Role"
    where = {} if namespace is None else {"namespace": namespace}
    wanted = yaml.safe_load((CHECKOUT / f"examples/roles/{role}.yaml").read_text())
    assert (wanted["kind"], wanted["metadata"]["name"]) == (kind, role)
    wanted["metadata"] |= where
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": role, **where},
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": PLATFORM, "name": name}],
    }
    metadata = {"name": name, "namespace": PLATFORM}
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    cluster.kubectl("apply", "--filename=-", manifests=[wanted, binding, made])
    return cluster.kubectl("create", "token", name, "--namespace", PLATFORM).strip()


def write_kubeconfig(cluster: TestCluster, folder: Path, user: Mapping[str, Any]) -> Path:
    """Write a kubeconfig with the context `work`."""
    document = yaml.safe_load(pki.kubeconfig(cluster.layout, "admin"))
    document["users"][0]["user"] = dict(user)
    document["contexts"][0]["name"] = document["current-context"] = "work"
    file = folder / "config"
    file.write_text(yaml.safe_dump(document))
    return file


def login_command(folder: Path, token: str) -> dict[str, Any]:
    """Write a command that hands out `token` and return how a kubeconfig names it."""
    version = {"apiVersion": "client.authentication.k8s.io/v1"}
    credential = {**version, "kind": "ExecCredential", "status": {"token": token}}
    program = folder / "bin" / "login"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n")
    program.chmod(0o755)
    return {"exec": {**version, "command": "./bin/login", "interactiveMode": "Never"}}


def kubeconfig_stack(directory: Path, root: Path, cluster: Mapping[str, Any]) -> WholeStack:
    """Return a stack with these settings of its cluster, and a job."""
    stack = WholeStack(directory, root)
    stack.configure(cluster={"kind": "kubeconfig", **cluster}, jobs={"say": JOB})
    return stack


JOB = {
    "image": KUBECTL_IMAGE,
    "command": ["/kubectl", "version", "--client"],
    "workers": 0,
    "cpu": "50m",
    "memory": "64Mi",
}
"""It needs no torch, and has a pod, a log and an end like any other."""


def images() -> dict[str, str]:
    """Return what the node of an embedded cluster has already."""
    return {"trainer": KUBECTL_IMAGE, **program_images()}
