"""What of a job can change without another result, and how it is changed in place."""

import re
from collections.abc import Mapping
from typing import Any

from core.handler import Change
from jobs.api import JobApi
from jobs.judge.replica import TYPE_LABEL

ARTIFACTS = "artifacts"
"""The run's input with its inputs: url and sha256 of each, or under `missing` why it has none."""

_TEMPLATE = r"manifest\.spec\.pytorchReplicaSpecs\.\w+\.template"
_PATHS = re.compile(
    r"(kubeconfig|declared|artifacts|timeoutSeconds|startTimeoutSeconds|retries|onCancel"
    r"|manifest\.metadata\.(labels|annotations)"
    r"|manifest\.spec\.runPolicy"
    rf"|{_TEMPLATE}\.metadata\.(labels|annotations)"
    rf"|{_TEMPLATE}\.spec\.priorityClassName)"
    r"(?![\w-])"
)
_METADATA = ("labels", "annotations")
_PRIORITY = "priorityClassName"


def is_in_place(change: Change) -> bool:
    """Return whether a change of the resource leaves its result true.

    An artifact that the run was given may be at another place now, as long as it is the same.
    """
    return _PATHS.match(change.path) is not None and not is_other_content(change)


def is_other_content(change: Change) -> bool:
    """Return whether an input is another file than before; the same one may have moved."""
    path = change.path.split(".")
    return path[0] == ARTIFACTS and path[-1] == "sha256" and change.kind == "update"


def decisive(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a PyTorchJob's spec that can alter its result."""
    spec = {key: value for key, value in manifest["spec"].items() if key != "runPolicy"}
    spec["pytorchReplicaSpecs"] = {
        role: {**replicas, "template": _decisive_template(replicas["template"])}
        for role, replicas in spec["pytorchReplicaSpecs"].items()
    }
    return spec


def patch(
    old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool = True
) -> dict[str, Any]:
    """Return the JSON merge patch that brings a PyTorchJob to a `new` manifest, in place.

    The webhook has one immutable field, `runPolicy.managedBy`, which no manifest here has.
    https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/common/util/webhooks.go

    Args:
        old: The manifest that it was brought to last, or itself.
        new: One that differs in nothing that could alter the result.
        removing: Whether what `new` lacks is removed.
    """
    specs = {
        role: {"template": _template_patch(template(old, role), template(new, role), removing)}
        for role in new["spec"]["pytorchReplicaSpecs"]
    }
    policies = old["spec"].get("runPolicy"), new["spec"].get("runPolicy")
    change = {
        "metadata": _metadata(old, new, removing),
        "spec": {"runPolicy": _merge(*policies, removing), "pytorchReplicaSpecs": specs},
    }
    return _pruned(change)


def pod_patch(
    old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool = True
) -> dict[str, Any]:
    """Return the same for an existing pod, from templates: its priority can't change."""
    return _pruned({"metadata": _metadata(old, new, removing)})


def template(manifest: Mapping[str, Any], role: str) -> Mapping[str, Any]:
    """Return the template of a role's pods, empty when the job has no such role."""
    replicas: Mapping[str, Any] = manifest["spec"]["pytorchReplicaSpecs"].get(role, {})
    found: Mapping[str, Any] = replicas.get("template", {})
    return found


def bring(api: JobApi, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change a job and its pods from the manifest `old` to `new`.

    What does not exist is left out: a deleted job has nothing to change.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        Unreachable: no answer came.
    """
    if change := patch(old, new):
        api.patch(change)
    for pod in api.pods() if _metadata_differs(old, new) else []:
        before, now = (template(each, _role(pod, each)) for each in (old, new))
        if change := pod_patch(before, now):
            api.patch_pod(pod["metadata"]["name"], change)


def complete(api: JobApi, job: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Add what `manifest` requests to a job that was submitted before it was changed.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        Unreachable: no answer came.
    """
    if change := patch(job, manifest, removing=False):
        api.patch(change)
    for pod in api.pods():
        role = _role(pod, manifest)
        if change := pod_patch(pod, template(manifest, role), removing=False):
            api.patch_pod(pod["metadata"]["name"], change)


def _decisive_template(template: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(template)
    kept["metadata"] = {k: v for k, v in template.get("metadata", {}).items() if k not in _METADATA}
    kept["spec"] = {k: v for k, v in template.get("spec", {}).items() if k != _PRIORITY}
    return kept


def _template_patch(
    old: Mapping[str, Any], new: Mapping[str, Any], removing: bool
) -> dict[str, Any]:
    before, now = (each.get("spec", {}).get(_PRIORITY) for each in (old, new))
    priority = {} if before == now or (now is None and not removing) else {_PRIORITY: now}
    return {"metadata": _metadata(old, new, removing), "spec": priority}


def _metadata(old: Mapping[str, Any], new: Mapping[str, Any], removing: bool) -> dict[str, Any]:
    before, now = (each.get("metadata") or {} for each in (old, new))
    return {key: _merge(before.get(key), now.get(key), removing) for key in _METADATA}


def _merge(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, removing: bool
) -> dict[str, Any]:
    """Return what of a flat map changes; what is gone becomes null."""
    before, now = old or {}, new or {}
    changed = {key: value for key, value in now.items() if before.get(key) != value}
    return {**(dict.fromkeys(before.keys() - now.keys()) if removing else {}), **changed}


def _pruned(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return `change` without maps that are empty, all through: what is left is to be changed."""
    kept = {
        key: _pruned(value) if isinstance(value, Mapping) else value
        for key, value in change.items()
    }
    return {key: value for key, value in kept.items() if value != {}}


def _metadata_differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    roles = new["spec"]["pytorchReplicaSpecs"]
    return any(pod_patch(template(old, role), template(new, role)) for role in roles)


def _role(pod: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Return the role of a pod as the manifest spells it."""
    label = (pod["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
    roles = manifest["spec"]["pytorchReplicaSpecs"]
    return next((role for role in roles if role.lower() == label), "")
