"""What a volume is, and which claims get one: decided here, carried out in `provisioner.py`."""

from pathlib import Path
from typing import Any

from clusters.embedded.addons.storage import PROVISIONER

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
HOSTNAME = "kubernetes.io/hostname"

Object = dict[str, Any]


def volume(claim: Object, reclaim: str, path: Path, node: str) -> Object:
    """The PersistentVolume of a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    here = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": path.name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": reclaim,
            "storageClassName": spec["storageClassName"],
            "volumeMode": "Filesystem",
            "claimRef": claim_reference(meta),
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def refusal(claim: Object) -> str | None:
    """Why a claim can't be served, or None."""
    spec = claim["spec"]
    if spec.get("volumeMode") == "Block":
        return "volumeMode Block: this cluster's volumes are directories; leave volumeMode out"
    if "dataSource" in spec or "dataSourceRef" in spec:
        return "dataSource: this cluster's volumes start empty; leave dataSource out"
    if "selector" in spec:
        return "selector: this cluster's volumes are made for their claim; leave selector out"
    return None


def is_waiting(claim: Object) -> bool:
    """Whether a claim has no volume and still wants one."""
    return "volumeName" not in claim["spec"] and "deletionTimestamp" not in claim["metadata"]


def is_done(found: Object) -> bool:
    """Whether a volume was made here and nobody will use it or its data again."""
    ours = found["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
    deletes = found["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    return ours and deletes and found["status"].get("phase") in {"Released", "Failed"}


def claim_reference(meta: Object) -> Object:
    """How other objects name a claim, by its metadata."""
    identity = {name: meta[name] for name in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **identity}
