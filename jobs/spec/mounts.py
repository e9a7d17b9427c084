"""The volumes of a job's pods, and where they are mounted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from core import quantities
from jobs.spec.job import TrainingJob
from jobs.spec.names import OWN_VOLUMES
from jobs.spec.parts import Volume
from jobs.spec.resources import Share

_READABLE_AND_EXECUTABLE = 0o555


@dataclass(frozen=True)
class MountedScript:
    """A script as a pod finds it: a ConfigMap, and the file that is started.

    Args:
        config_map: The name of the ConfigMap.
        items: The path of the file under each of its keys.
        entry: The path of the file that is started.
    """

    config_map: str
    items: dict[str, str]
    entry: str


def claim_name(job: str, name: str, volume: Volume) -> str:
    """Return the name of a volume's claim; one for a host path is another for another path."""
    if volume.claim is not None:
        return volume.claim
    if volume.host_path is None:
        return f"{job}-{name}"
    said = f"{volume.host_path}:{volume.read_only}".encode()
    return f"{job}-{name}-{hashlib.sha256(said).hexdigest()[:8]}"


def volumes(job: TrainingJob, share: Share, script: MountedScript | None) -> list[dict[str, Any]]:
    """Return a pod's volumes."""
    half = quantities.mebibytes(quantities.size(share.memory_limit) // 2)
    shared = half if job.shared_memory is None else job.shared_memory
    own: dict[str, dict[str, Any]] = {
        "tmp": {"emptyDir": {}},
        "shm": {"emptyDir": {"medium": "Memory", "sizeLimit": shared}},
        "work": {"emptyDir": {}},
    }
    if script is not None:
        items = [{"key": key, "path": path} for key, path in sorted(script.items.items())]
        own["script"] = {
            "configMap": {
                "name": script.config_map,
                "items": items,
                "defaultMode": _READABLE_AND_EXECUTABLE,
            }
        }
    named = {**own, **{name: _source(job.name, name, each) for name, each in job.volumes.items()}}
    return [{"name": name, **source} for name, source in named.items()]


def mounts(job: TrainingJob, script: MountedScript | None) -> list[dict[str, Any]]:
    """Return where a container finds the pod's volumes."""
    own = [
        {"name": name, "mountPath": path, **({"readOnly": True} if name == "script" else {})}
        for name, path in OWN_VOLUMES.items()
        if name != "script" or script is not None
    ]
    return own + [
        {
            "name": name,
            "mountPath": volume.mount_path,
            **({"readOnly": True} if volume.read_only else {}),
        }
        for name, volume in job.volumes.items()
    ]


def _source(job: str, name: str, volume: Volume) -> dict[str, Any]:
    if volume.empty_dir is None:
        claim = {"claimName": claim_name(job, name, volume)}
        return {"persistentVolumeClaim": claim}
    limit = {} if volume.empty_dir is True else {"sizeLimit": volume.empty_dir}
    return {"emptyDir": limit}
