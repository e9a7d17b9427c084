"""A job's `data`: how its pods fetch them into a cache, and find them. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobs.spec.names import CACHED_DATA, DATA_CACHE
from jobs.spec.volumes import claim

if TYPE_CHECKING:
    from core.manifests import Manifest
    from jobs.spec.job import TrainingJob

_SIZE = "20Gi"
"""Of the cache's claim. Where a storage class keeps to it, larger data need a volume of the job."""


def environment(job: TrainingJob) -> dict[str, str]:
    """Return the variable with which a container finds its data."""
    if job.data is None:
        return {}
    place = _cache(job)
    found = place if job.data.url is None else f"{place}/{job.data.sha256}"
    return {"SLIPWAY_DATA_DIR": found}


def arguments(job: TrainingJob) -> list[str]:
    """Return the argument with which a container of the trainer's image fetches the data.

    `inputs.filled` completes it for Kubernetes, which takes $(…) for a variable.
    """
    if job.data is None or job.data.url is None:
        return []
    known = {"url": job.data.url, "sha256": job.data.sha256, "cache": _cache(job)}
    return [json.dumps(known)]


def needs_cache(job: TrainingJob) -> bool:
    """Return whether the job's data are fetched, and into no volume of its own."""
    return job.data is not None and job.data.url is not None and job.data.volume is None


def volumes(job: TrainingJob, *, is_kept: bool) -> list[dict[str, Any]]:
    """Return the pod's volume with the cache: the claim that all jobs share, or its own."""
    if not needs_cache(job):
        return []
    kept = {"persistentVolumeClaim": {"claimName": DATA_CACHE}}
    return [{"name": DATA_CACHE, **(kept if is_kept else {"emptyDir": {}})}]


def mounts(job: TrainingJob, *, read_only: bool) -> list[dict[str, Any]]:
    """Return where a container finds the cache, which no program may change."""
    if not needs_cache(job):
        return []
    mount = {"name": DATA_CACHE, "mountPath": CACHED_DATA}
    return [{**mount, "readOnly": True} if read_only else mount]


def cache_claim(namespace: str) -> Manifest:
    """Return the claim of the cache; it goes when no job needs it."""
    return claim(DATA_CACHE, namespace, _SIZE)


def _cache(job: TrainingJob) -> str:
    volume = None if job.data is None else job.data.volume
    return CACHED_DATA if volume is None else job.volumes[volume].mount_path
