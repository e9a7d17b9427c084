"""Declares Kubernetes objects that are plain dicts as Pulumi resources, and what waits for others.

The engine skips whatever depends on a resource that was skipped or failed. That is wrong for a job
that merely comes after another one: the outputs here have no such dependency.
"""

import asyncio
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, NoReturn

import pulumi
from pulumi import CustomResource, Output
from pulumi.runtime.stack import Stack

from core.manifests import Manifest
from core.wording import as_typed

# Only its Provider is imported: an object's class comes with all of its group's, and those
# that a stack needs cost every start of the program a second of CPU time.
_VERSION = version("pulumi_kubernetes")
_ROLES = frozenset({"Role", "ClusterRole"})


def declare(manifest: Manifest, opts: pulumi.ResourceOptions) -> CustomResource:
    """Declare `manifest` as a resource named like the object, as the SDK's own class would."""
    group, kind = manifest["apiVersion"], manifest["kind"]
    hidden = ["data", "stringData"] if kind == "Secret" else []
    properties = {
        key: Output.secret(value) if key in hidden else value for key, value in manifest.items()
    }
    common = pulumi.ResourceOptions(
        additional_secret_outputs=hidden,
        # For a pod's 30 seconds of grace; what takes longer has a finalizer, which the error names.
        custom_timeouts=pulumi.CustomTimeouts(delete="60s"),
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
    """Declare objects beside each other, but bindings after the roles.

    Who is no administrator may bind only rights of their own, which the API server has to look up
    (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-binding-creation-or-update).
    """
    every = list(manifests)
    roles = [declare(each, opts) for each in every if each["kind"] in _ROLES]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=roles))
    others = (each for each in every if each["kind"] not in _ROLES)
    return [*roles, *(declare(each, after if "roleRef" in each else opts) for each in others)]


def once_ended(results: Iterable[Output[Any]], value: pulumi.Input[str]) -> Output[str]:
    """Return `value` once all `results` are known, or can no longer become known."""

    async def ended() -> None:
        await asyncio.gather(*(result.future() for result in results))

    return Output.all(value, ended()).apply(lambda both: str(both[0]))


def if_any(output: Output[Any]) -> Output[Any]:
    """Return a resource's output, or None where an update failed to make or change it."""
    return Output.from_input(output.future())


def required(resource: CustomResource, otherwise: str) -> Output[list[pulumi.Resource]]:
    """Return what a component depends on that is nothing without `resource`.

    Where that was skipped, the engine would end the update with an error that does not name what
    has failed. The program ends with `otherwise` instead, beside the error of what failed.
    """

    async def checked() -> list[pulumi.Resource]:
        # In a preview what is new has no ID yet, and nothing fails.
        if not pulumi.runtime.is_dry_run() and not await _has_id(resource):
            end(otherwise)
        return []

    return Output.from_input(checked())


async def _has_id(resource: CustomResource) -> bool:
    return bool(await resource.id.future())


def end(why: str) -> NoReturn:
    """Report why the program cannot go on and end it; of a component it shows what is raised."""
    if not isinstance(pulumi.runtime.get_root_resource(), Stack):
        raise pulumi.RunError(as_typed(why))
    pulumi.log.error(as_typed(why))
    # Python would warn of what Pulumi's SDK has begun and is never awaited.
    warnings.simplefilter("ignore", RuntimeWarning)
    # As a program that has reported its error: to other statuses the language host adds one
    # (https://github.com/pulumi/pulumi/blob/master/sdk/python/cmd/pulumi-language-python-exec).
    raise SystemExit(32)
