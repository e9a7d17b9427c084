"""The volumes that a job brings along: claims, and volumes for directories of a node. Pure."""

from collections.abc import Iterator

from core.manifests import KEPT, MANAGED_BY, Manifest
from jobs.spec import TrainingJob, Volume
from jobs.spec.mounts import claim_name

_NOMINAL = "1Gi"
"""A directory of a node has no size of its own, but a volume has to say one."""


def objects(job: TrainingJob, namespace: str) -> Iterator[Manifest]:
    """Yield the objects that give directories of a node to `job`'s pods, in order."""
    for name, volume in job.volumes.items():
        claim = claim_name(job.name, name, volume)
        if volume.host_path is not None:
            yield _host_volume(volume, claim, namespace)
            bound = {"storageClassName": "", "volumeName": _volume_name(claim, namespace)}
            yield _claim(claim, namespace, _host_mode(volume), _NOMINAL, bound)


def sized(job: TrainingJob, namespace: str) -> Iterator[tuple[Manifest, bool]]:
    """Yield the claim of each of `job`'s volumes with a size, and whether it is kept."""
    for name, volume in job.volumes.items():
        if volume.size is not None:
            keep = volume.keep is not False
            claim = _claim(
                claim_name(job.name, name, volume), namespace, "ReadWriteOnce", volume.size, {}
            )
            claim["metadata"]["annotations"] = {KEPT: str(keep).lower()}
            yield claim, keep


def _host_volume(volume: Volume, claim: str, namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _volume_name(claim, namespace), "labels": dict(MANAGED_BY)},
        "spec": {
            "capacity": {"storage": _NOMINAL},
            "accessModes": [_host_mode(volume)],
            "storageClassName": "",
            # The directory is the person's: it stays when the job goes.
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claim,
            },
            # A directory that is not there is an error and not an empty one.
            "hostPath": {"path": volume.host_path, "type": "Directory"},
        },
    }


def _claim(name: str, namespace: str, mode: str, size: str, bound: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
            # Many storage classes make a volume only once a pod wants it; the run tells when
            # none comes.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **bound},
    }


def _host_mode(volume: Volume) -> str:
    return "ReadOnlyMany" if volume.read_only else "ReadWriteOnce"


def _volume_name(claim: str, namespace: str) -> str:
    """Return a name that is unique in the cluster: volumes are in no namespace."""
    return f"{namespace}-{claim}"
