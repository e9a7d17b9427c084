"""What of a job can change without another result, and how it is changed in place."""

import re
from collections.abc import Mapping
from typing import Any

from core.handler import Change
from jobs.api.client import JobApi
from jobs.observe.replica import TYPE_LABEL

ARTIFACTS = "artifacts"
"""The run's input with its inputs: url and sha256 of each, or under `missing` why it has none."""

_Parts = dict[str, "_Parts"]
_METADATA: _Parts = {"labels": {}, "annotations": {}}
_TEMPLATE: _Parts = {"metadata": _METADATA, "spec": {"priorityClassName": {}}}
_CHANGEABLE: _Parts = {
    "metadata": _METADATA,
    "spec": {"runPolicy": {}, "pytorchReplicaSpecs": {"*": {"template": _TEMPLATE}}},
}
"""The parts of a PyTorchJob that can't alter its result, each with all below it; * is any role."""


def is_in_place(change: Change) -> bool:
    """Return whether a change of the resource leaves its result true.

    Besides its manifest, a run's namespace and the content of its artifacts decide on that.
    """
    first, *path = re.split(r"[.\[]", change.path)
    if first != "manifest":
        return first != "namespace" and not is_other_content(change)
    parts: _Parts | None = _CHANGEABLE
    for part in path:
        parts = parts.get(part, parts.get("*")) if parts else parts
    return parts == {}


def is_other_content(change: Change) -> bool:
    """Return whether an input is another file than before; the same one may have moved."""
    path = change.path.split(".")
    return path[0] == ARTIFACTS and path[-1] == "sha256" and change.kind == "update"


def decisive(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a PyTorchJob's spec that can alter its result."""
    return _split(manifest["spec"], _CHANGEABLE["spec"], changeable=False)


def bring(
    api: JobApi, old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool = True
) -> None:
    """Change a job and its pods in place; what does not exist is left out.

    The webhook has one immutable field, `runPolicy.managedBy`, which no manifest here has.
    https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/common/util/webhooks.go

    `old` is the manifest that they were brought to last, of which what `new` lacks is removed; or
    the job itself, with `removing` unset, as no manifest has all of its labels.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        Unreachable: no answer came.
    """
    before, now = (_split(each, _CHANGEABLE, changeable=True) for each in (old, new))
    if change := _patch(before, now, removing=removing):
        api.patch(change)
    for pod in api.pods():
        # The priority of an existing pod can't change.
        before, now = (
            _split(each, {"metadata": _METADATA}, changeable=True)
            for each in (_template(old, pod) if removing else pod, _template(new, pod))
        )
        if change := _patch(before, now, removing=removing):
            api.patch_pod(pod["metadata"]["name"], change)


def _split(value: Mapping[str, Any], parts: _Parts, *, changeable: bool) -> dict[str, Any]:
    """Return of a value the parts that can change in place, or all others."""
    found = {}
    for key, each in value.items():
        below = parts.get(key, parts.get("*"))
        if below:
            found[key] = _split(each, below, changeable=changeable)
        elif (below is not None) == changeable:
            found[key] = each
    return found


def _patch(old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool) -> dict[str, Any]:
    """Return the JSON merge patch from `old` to `new`.

    https://www.rfc-editor.org/rfc/rfc7386: what is gone becomes null.
    """
    change: dict[str, Any] = {}
    for key in old.keys() | new.keys():
        before, now = old.get(key), new.get(key)
        if isinstance(before, Mapping) or isinstance(now, Mapping):
            if inner := _patch(before or {}, now or {}, removing=removing):
                change[key] = inner
        elif before != now and (now is not None or removing):
            change[key] = now
    return change


def _template(manifest: Mapping[str, Any], pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the template of a pod's role, which its label has in lower case."""
    role = (pod["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
    specs = manifest["spec"]["pytorchReplicaSpecs"]
    return next((specs[each]["template"] for each in specs if each.lower() == role), {})
