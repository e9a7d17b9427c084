"""Roles and their bindings as plain dicts."""

from collections.abc import Sequence

from core.manifests import Manifest

_GROUP = "rbac.authorization.k8s.io"


def rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> Manifest:
    """Return a rule of a role.

    Args:
        group: The resources' API group, empty for the core one.
        resources: In the plural, like `pods` or `pods/log`.
        verbs: What may be done.
        names: Only to objects of these names; empty for all. It cannot bound `create`,
            nor a `list` or `watch` that asks for all of them.
    """
    granted: Manifest = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return granted | ({"resourceNames": [*names]} if names else {})


def grant(
    name: str, namespace: str | None, *rules: Manifest, account: tuple[str, str]
) -> list[Manifest]:
    """Return a role with `rules` and the binding that gives it to a service account.

    Args:
        name: Of both.
        namespace: Where the rules hold; None for the whole cluster.
        *rules: What may be done; see `rule`.
        account: The account's namespace and name.
    """
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    role = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [*rules],
    }
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}],
    }
    return [role, binding]
