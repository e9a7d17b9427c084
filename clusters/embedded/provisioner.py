"""Gives every claim of the default StorageClass a directory of the cluster's own.

    python -m clusters.embedded.provisioner --kubeconfig FILE --volumes DIRECTORY --node NAME

A volume is a `local` PersistentVolume: for those the kubelet itself gives the directory to the
pod's fsGroup, which it does not do for `hostPath`. The claim's size is not enforced.
"""

import argparse
import logging
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from clusters.embedded.api import LIMIT, PROVISIONER, UNREACHABLE, reason
from core import kube
from core.kube import Request

RESYNC = 30
"""Seconds after which everything is looked at, whether anything changed or not."""
RETRY = 1
WATCH = 300
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"

Object = dict[str, Any]

log = logging.getLogger("provisioner")


@dataclass(frozen=True)
class Provisioner:
    """Brings directories and PersistentVolumes to what the claims request."""

    api: ApiClient
    volumes: Path
    node: str

    def reconcile(self) -> None:
        """Look at everything once. May be repeated and interrupted at any point."""
        reclaim = {
            found["metadata"]["name"]: found["reclaimPolicy"]
            for found in self._list(_CLASSES)
            if found["provisioner"] == PROVISIONER
        }
        for claim in self._list(_CLAIMS):
            storage_class = claim["spec"].get("storageClassName")
            if storage_class in reclaim and is_waiting(claim):
                self._provide(claim, reclaim[storage_class])
        for found in self._list(_VOLUMES):
            if is_done(found):
                self._remove(found)

    def run(self) -> None:
        """Reconcile now, after every change, and every `RESYNC` seconds; never returns."""
        changed = threading.Event()
        for path in (_CLAIMS, _VOLUMES):
            threading.Thread(target=self._watch, args=(path, changed), daemon=True).start()
        while True:
            changed.clear()
            try:
                self.reconcile()
            except UNREACHABLE as error:
                log.warning("will try again: %s", reason(error))
                time.sleep(RETRY)
            else:
                changed.wait(RESYNC)

    def _watch(self, path: str, changed: threading.Event) -> None:
        request = Request("GET", path, {"watch": "true", "timeoutSeconds": str(WATCH)})
        while True:
            try:
                # Whatever comes is a change: what it is, `reconcile` looks up.
                for _ in kube.send(self.api, request, limit=(LIMIT[0], WATCH + LIMIT[1])).stream():
                    changed.set()
            except UNREACHABLE as error:
                log.warning("watch ended: %s", reason(error))
                time.sleep(RETRY)

    def _list(self, path: str) -> list[Object]:
        items: list[Object] = kube.ask(self.api, Request("GET", path), limit=LIMIT)["items"]
        return items

    def _send(self, request: Request, *, unless: int) -> None:
        """Send a request; with the status `unless` the API server answers that it is so already."""
        try:
            kube.ask(self.api, request, limit=LIMIT)
        except ApiException as error:
            if error.status != unless:
                raise

    def _provide(self, claim: Object, reclaim: str) -> None:
        meta = claim["metadata"]
        if (why := refusal(claim)) is not None:
            self._warn(meta, why)
            return
        path = self.volumes / f"pvc-{meta['uid']}"
        path.mkdir(exist_ok=True)
        # For whatever user the pod runs as. No other user has access: the parent is private.
        path.chmod(0o777)
        body = volume(claim, reclaim, path, self.node)
        self._send(Request("POST", _VOLUMES, body=body), unless=409)
        log.info("%s/%s: %s", meta["namespace"], meta["name"], path)

    def _remove(self, found: Object) -> None:
        name = found["metadata"]["name"]
        path = self.volumes / name
        if found["spec"].get("local", {}).get("path") != str(path):
            log.error("%s is not at %s and is left alone", name, path)
            return
        if path.exists():
            shutil.rmtree(path)
        self._send(Request("DELETE", f"{_VOLUMES}/{name}"), unless=404)
        log.info("%s: removed", path)

    def _warn(self, meta: Object, why: str) -> None:
        """Record an event for `kubectl describe pvc`; once, since its name is the claim's."""
        event = {
            "metadata": {"name": f"{meta['name']}.{meta['uid']}"},
            "involvedObject": claim_reference(meta),
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": why,
            "source": {"component": PROVISIONER},
        }
        events = f"/api/v1/namespaces/{meta['namespace']}/events"
        self._send(Request("POST", events, body=event), unless=409)


def volume(claim: Object, reclaim: str, path: Path, node: str) -> Object:
    """The PersistentVolume of a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
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
    """Whether a volume was made here and nothing will use it or its data again."""
    ours = found["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
    deletes = found["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    return ours and deletes and found["status"].get("phase") in {"Released", "Failed"}


def claim_reference(meta: Object) -> Object:
    """How other objects name a claim, by its metadata."""
    identity = {name: meta[name] for name in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **identity}


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--volumes", type=Path, required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    api = kube.connect(arguments.kubeconfig.read_text())
    Provisioner(api, arguments.volumes, arguments.node).run()


if __name__ == "__main__":
    main()
