"""Declares Kubernetes objects that are plain dicts as Pulumi resources of their own types."""

from collections.abc import Iterable, Mapping

import pulumi
from pulumi_kubernetes import admissionregistration, apiextensions, apps, core, networking, rbac

from infra.manifests import Manifest

_CLASSES: Mapping[str, type[pulumi.CustomResource]] = {
    "ClusterRole": rbac.v1.ClusterRole,
    "ClusterRoleBinding": rbac.v1.ClusterRoleBinding,
    "ConfigMap": core.v1.ConfigMap,
    "CustomResourceDefinition": apiextensions.v1.CustomResourceDefinition,
    "DaemonSet": apps.v1.DaemonSet,
    "Deployment": apps.v1.Deployment,
    "Namespace": core.v1.Namespace,
    "NetworkPolicy": networking.v1.NetworkPolicy,
    "PersistentVolume": core.v1.PersistentVolume,
    "PersistentVolumeClaim": core.v1.PersistentVolumeClaim,
    "Role": rbac.v1.Role,
    "RoleBinding": rbac.v1.RoleBinding,
    "Secret": core.v1.Secret,
    "Service": core.v1.Service,
    "ServiceAccount": core.v1.ServiceAccount,
    "ValidatingWebhookConfiguration": admissionregistration.v1.ValidatingWebhookConfiguration,
}
# The classes take their arguments in snake case, and nested dicts as Kubernetes spells them.
_ARGUMENTS = {
    "automountServiceAccountToken": "automount_service_account_token",
    "binaryData": "binary_data",
    "imagePullSecrets": "image_pull_secrets",
    "roleRef": "role_ref",
}
# Enough for a pod's 30 seconds of grace. What takes longer is held by something that won't let go
# by itself, and the error says by what.
_GONE_AFTER = pulumi.CustomTimeouts(delete="60s")


def declare(manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Declare `manifest` as a resource of its own type, named like the object.

    A deletion is waited for no longer than a minute.

    Raises:
        KeyError: a kind that has no class here yet.
    """
    arguments = {
        _ARGUMENTS.get(key, key): value
        for key, value in manifest.items()
        if key not in {"apiVersion", "kind"}
    }
    kind = manifest["kind"]
    limited = pulumi.ResourceOptions.merge(
        pulumi.ResourceOptions(custom_timeouts=_GONE_AFTER), opts
    )
    return _CLASSES[kind](manifest["metadata"]["name"], **arguments, opts=limited)


def declare_all(
    manifests: Iterable[Manifest], opts: pulumi.ResourceOptions
) -> list[pulumi.CustomResource]:
    """Declare objects beside each other, but each binding after the role that it is of.

    Whoever is no administrator may bind a role whose rights they have themselves, and the API
    server has to look those up
    (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-binding-creation-or-update).
    """
    made: dict[tuple[str, str, str], pulumi.CustomResource] = {}
    for manifest in sorted(manifests, key=lambda each: "roleRef" in each):
        of = manifest.get("roleRef", {})
        namespace = manifest["metadata"].get("namespace", "")
        place = namespace if of.get("kind") == "Role" else ""
        role = made.get((of.get("kind", ""), place, of.get("name", "")))
        after = pulumi.ResourceOptions(depends_on=[] if role is None else [role])
        resource = declare(manifest, pulumi.ResourceOptions.merge(opts, after))
        made[manifest["kind"], namespace, manifest["metadata"]["name"]] = resource
    return list(made.values())
