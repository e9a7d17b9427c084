"""Declare Kubernetes objects from dicts as Pulumi resources, and wait for resources' outputs.

The engine skips every resource that depends on a skipped or failed resource. A job that merely runs
after another job must not be skipped, so the outputs in this module do not create a dependency.
"""

import asyncio
import warnings
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

import pulumi
from pulumi import CustomResource, Output
from pulumi.runtime.stack import Stack
from pulumi_kubernetes import Provider

from core.manifests import Manifest
from core.wording import as_typed

# Only the SDK's Provider is imported: importing a single object's class imports its entire API
# group, which would cost a second of CPU time at every start of the program.
_VERSION = version("pulumi_kubernetes")
_ROLES = frozenset({"Role", "ClusterRole"})


def declare(manifest: Manifest, opts: pulumi.ResourceOptions) -> CustomResource:
    """Declare `manifest` as a resource with the object's name, as pulumi_kubernetes' classes do."""
    group, kind = manifest["apiVersion"], manifest["kind"]
    hidden = ["data", "stringData"] if kind == "Secret" else []
    properties = {
        key: Output.secret(value) if key in hidden else value for key, value in manifest.items()
    }
    common = pulumi.ResourceOptions(
        additional_secret_outputs=hidden,
        delete_before_replace=True,  # its name is fixed, but `--replace` does not call `diff`
        # Pods have a grace period of 30 s; if deletion takes longer, the error names a finalizer.
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
    manifests: Sequence[Manifest], opts: pulumi.ResourceOptions
) -> list[CustomResource]:
    """Declare objects that are created in parallel, except role bindings, which follow the roles.

    Users who are not administrators may bind only roles whose permissions they have. To check that,
    the API server needs the role to exist (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-binding-creation-or-update).
    """
    roles = [declare(each, opts) for each in manifests if each["kind"] in _ROLES]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=roles))
    others = (each for each in manifests if each["kind"] not in _ROLES)
    return [*roles, *(declare(each, after if "roleRef" in each else opts) for each in others)]


def once_ended(results: Iterable[Output[Any]], value: pulumi.Input[str]) -> Output[str]:
    """Return an output that yields `value` once each result is available, failed or skipped."""

    async def ended() -> None:
        await asyncio.gather(*(result.future() for result in results))

    return Output.all(value, ended()).apply(lambda both: str(both[0]))


def if_any(output: Output[Any]) -> Output[Any]:
    """Return `output`, but, except in previews, as None if its resource failed or was skipped."""
    return output if pulumi.runtime.is_dry_run() else Output.from_input(output.future())


def provider_of(
    name: str,
    kubeconfig: Output[str],
    identifier: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
    ignored: list[str] | None = None,
    **options: Any,
) -> Provider:
    """Declare a cluster's provider; all its objects are replaced if `identifier` changes.

    Changes to the inputs `ignored` are ignored. If a resource in `after` failed or was skipped, the
    program exits, after the original error. The engine may panic when it skips a provider, as it
    has no process for an unchanged one's dry run
    (https://github.com/pulumi/pulumi/blob/v3.274.1/pkg/resource/deploy/step.go#L228).
    """

    async def existing() -> Sequence[pulumi.Resource]:
        outputs = [each for one in after for each in vars(one).values()]
        known = [await each.is_known() for each in outputs if isinstance(each, Output)]
        # In a preview, new resources have unknown outputs, and nothing fails.
        if not (pulumi.runtime.is_dry_run() or all(known)):
            end("nothing was changed in the cluster, because it is not ready")
        return after

    opts = pulumi.ResourceOptions(depends_on=Output.from_input(existing()), ignore_changes=ignored)
    return Provider(name, opts, kubeconfig=kubeconfig, cluster_identifier=identifier, **options)


def end(why: str) -> NoReturn:
    """Report why the program can't continue, and exit; in a component, raise `RunError` instead."""
    if not isinstance(pulumi.runtime.get_root_resource(), Stack):
        raise pulumi.RunError(as_typed(why))
    pulumi.log.error(as_typed(why))
    # Python would warn about coroutines that Pulumi's SDK created but nothing awaits.
    warnings.simplefilter("ignore", RuntimeWarning)
    # The status for a program that has reported its error; for others, the language host adds one
    # (https://github.com/pulumi/pulumi/blob/master/sdk/python/cmd/pulumi-language-python-exec).
    raise SystemExit(32)
