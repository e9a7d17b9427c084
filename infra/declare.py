"""Declares Kubernetes objects that are plain dicts as Pulumi resources of their own types."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version

import pulumi
from pulumi import CustomResource, Output

from core.manifests import Manifest

# Only its Provider is imported: an object's class comes with all of its group's, and those
# that a stack needs cost every start of the program a second of CPU time.
_VERSION = version("pulumi_kubernetes")
_HIDDEN: Mapping[str, tuple[str, ...]] = {"Secret": ("data", "stringData")}
"""What is a secret wherever it goes, by the object's kind."""
# Enough for a pod's 30 seconds of grace. What takes longer is held by a finalizer, which the error
# names.
_GONE_AFTER = pulumi.CustomTimeouts(delete="60s")


def declare(manifest: Manifest, opts: pulumi.ResourceOptions) -> CustomResource:
    """Declare `manifest` as a resource of its own type, named like the object.

    The engine is sent what the SDK's class of that kind would send. A deletion is waited for no
    longer than a minute.
    """
    group, kind = manifest["apiVersion"], manifest["kind"]
    hidden = _HIDDEN.get(kind, ())
    properties = {
        key: Output.secret(value) if key in hidden else value for key, value in manifest.items()
    }
    common = pulumi.ResourceOptions(
        additional_secret_outputs=list(hidden),
        custom_timeouts=_GONE_AFTER,
        version=_VERSION,
    )
    return CustomResource(
        f"kubernetes:{'core/v1' if group == 'v1' else group}:{kind}",
        manifest["metadata"]["name"],
        properties,
        pulumi.ResourceOptions.merge(common, opts),
    )


def declare_all(
    manifests: Iterable[Manifest], opts: pulumi.ResourceOptions
) -> list[CustomResource]:
    """Declare objects beside each other, but each binding after the role that it is of.

    Whoever is no administrator may bind a role whose rights they have themselves, and the API
    server has to look those up
    (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-binding-creation-or-update).
    """
    made: dict[tuple[str, str, str], CustomResource] = {}
    for manifest in sorted(manifests, key=lambda each: "roleRef" in each):
        of = manifest.get("roleRef", {})
        namespace = manifest["metadata"].get("namespace", "")
        place = namespace if of.get("kind") == "Role" else ""
        role = made.get((of.get("kind", ""), place, of.get("name", "")))
        after = pulumi.ResourceOptions(depends_on=[] if role is None else [role])
        resource = declare(manifest, pulumi.ResourceOptions.merge(opts, after))
        made[manifest["kind"], namespace, manifest["metadata"]["name"]] = resource
    return list(made.values())
