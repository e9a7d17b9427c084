"""Who may do what, beyond what Kubernetes binds itself."""

from typing import Any

from clusters.embedded.addons.rbac import bind, role, rule


def manifests() -> list[dict[str, Any]]:
    """Cluster roles and bindings of the users in `certificates.requests`."""
    return [
        bind("slipway:admins", "cluster-admin", {"kind": "Group", "name": "slipway:admins"}),
        # How the API server reads logs and runs `kubectl exec`.
        bind(
            "slipway:apiserver",
            "system:kubelet-api-admin",
            {"kind": "User", "name": "kube-apiserver-kubelet-client"},
        ),
        role(
            "slipway:volume-provisioner",
            rule("", "persistentvolumes", "get list watch create delete"),
            rule("", "persistentvolumeclaims", "get list watch"),
            rule("", "events", "create"),
            rule("storage.k8s.io", "storageclasses", "get list"),
        ),
        bind(
            "slipway:volume-provisioner",
            "slipway:volume-provisioner",
            {"kind": "User", "name": "slipway:volume-provisioner"},
        ),
    ]
