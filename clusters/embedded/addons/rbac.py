"""Cluster roles and bindings as manifests."""

from typing import Any

API_GROUP = "rbac.authorization.k8s.io"


def rule(group: str, resources: str, verbs: str) -> dict[str, list[str]]:
    """One rule; resources and verbs are separated by spaces."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def role(name: str, *rules: dict[str, list[str]]) -> dict[str, Any]:
    """A ClusterRole."""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def bind(name: str, role_name: str, subject: dict[str, str]) -> dict[str, Any]:
    """A ClusterRoleBinding of one user, group or service account."""
    group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": API_GROUP}
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": role_name},
        "subjects": [{**subject, **group}],
    }
