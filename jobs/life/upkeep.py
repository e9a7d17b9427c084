"""Bring to a job, and to the pods that it has, what can change without another result."""

from collections.abc import Mapping
from typing import Any

from jobs.api import JobApi
from jobs.life import in_place
from jobs.watch.replicas import TYPE_LABEL


def bring(api: JobApi, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change the job and its pods from what `old` asked for to what `new` asks for.

    What is not there is left out: a job that was cleaned away has nothing to be changed.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        Unreachable: no answer came.
    """
    if change := in_place.patch(old, new):
        api.patch(change)
    for pod in api.pods() if _metadata_differs(old, new) else []:
        before, now = (in_place.template(each, _role(pod, each)) for each in (old, new))
        if change := in_place.pod_patch(before, now):
            api.patch_pod(pod["metadata"]["name"], change)


def complete(api: JobApi, job: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Add what `manifest` asks for to a job that was submitted before it was changed.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        Unreachable: no answer came.
    """
    if change := in_place.patch(job, manifest, removing=False):
        api.patch(change)
    for pod in api.pods():
        template = in_place.template(manifest, _role(pod, manifest))
        if change := in_place.pod_patch(pod, template, removing=False):
            api.patch_pod(pod["metadata"]["name"], change)


def _metadata_differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    roles = new["spec"]["pytorchReplicaSpecs"]
    return any(
        in_place.pod_patch(in_place.template(old, role), in_place.template(new, role))
        for role in roles
    )


def _role(pod: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Return the role of a pod as the manifest spells it."""
    said = (pod["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
    roles = manifest["spec"]["pytorchReplicaSpecs"]
    return next((role for role in roles if role.lower() == said), "")
