"""Patch fields that can't affect the result in a live job and its pods."""

from collections.abc import Mapping
from typing import Any

from jobs.api.client import JobApi
from jobs.model.pytorchjob import QUEUE_LABEL, TYPE_LABEL, templates

Parts = dict[str, "Parts | None"]
_METADATA: Parts = {"labels": {"*": {}, QUEUE_LABEL: None}, "annotations": {}}
_TEMPLATE: Parts = {"metadata": _METADATA, "spec": {"priorityClassName": {}}}
CHANGEABLE: Parts = {
    "metadata": _METADATA,
    "spec": {"runPolicy": {}, "pytorchReplicaSpecs": {"*": {"template": _TEMPLATE}}},
}
"""The parts of a live PyTorchJob that are patched in place, each with everything below it. * is any
other key, and None excludes one: Kueue refuses to change the queue while a job is running.
`runPolicy.suspend` belongs to the user and Kueue, so no manifest sets it.

The webhook's only immutable field is `runPolicy.managedBy`, which no manifest here sets.
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/common/util/webhooks.go
"""


def patch_in_place(
    api: JobApi, old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool = True
) -> None:
    """Patch a job and its pods in place, if they exist.

    `old` is the last applied manifest; fields in it that `new` lacks are removed. If `removing` is
    False, `old` is the job itself, since no manifest contains all of the job's labels.

    Raises:
        ApiException: the API server or the operator's webhook refused the patch.
        Unreachable: the API server is not responding.
    """
    if change := _patch(*(_split(each, CHANGEABLE) for each in (old, new)), removing=removing):
        api.patch(change)
    for pod in api.pods():
        # The priority of an existing pod can't change.
        role = (pod["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
        before = templates(old).get(role, {}) if removing else pod
        now = templates(new).get(role, {})
        parts = (_split(each, {"metadata": _METADATA}) for each in (before, now))
        if change := _patch(*parts, removing=removing):
            api.patch(change, pod["metadata"]["name"])


def _split(value: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """Return these parts of a value; an empty part selects everything below it, and * any key."""
    selected = {}
    for key, each in value.items():
        below = parts.get(key, parts.get("*"))
        if below is not None:
            selected[key] = _split(each, below) if below else each
    return selected


def _patch(old: Mapping[str, Any], new: Mapping[str, Any], *, removing: bool) -> dict[str, Any]:
    # https://www.rfc-editor.org/rfc/rfc7386: null removes a key.
    change: dict[str, Any] = {}
    for key in old.keys() | new.keys():
        before, now = old.get(key), new.get(key)
        if isinstance(before, Mapping) or isinstance(now, Mapping):
            if inner := _patch(before or {}, now or {}, removing=removing):
                change[key] = inner
        elif before != now and (now is not None or removing):
            change[key] = now
    return change
