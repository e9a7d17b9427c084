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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, watch

from clusters.embedded.addons import PROVISIONER
from clusters.embedded.api import LIMIT, UNREACHABLE, reason
from core import kube

RESYNC = 30
"""Seconds after which everything is looked at, whether anything changed or not."""
RETRY = 1
WATCH = 300
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

Object = dict[str, Any]

log = logging.getLogger("provisioner")


@dataclass(frozen=True)
class Provisioner:
    """Brings directories and PersistentVolumes to what the claims request."""

    api: client.ApiClient
    volumes: Path
    node: str

    @cached_property
    def _core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.api)

    def reconcile(self) -> None:
        """Look at everything once. May be repeated and interrupted at any point."""
        reclaim = {
            found["metadata"]["name"]: found["reclaimPolicy"]
            for found in self._list(client.StorageV1Api(self.api).list_storage_class)
            if found["provisioner"] == PROVISIONER
        }
        for claim in self._list(self._core.list_persistent_volume_claim_for_all_namespaces):
            storage_class = claim["spec"].get("storageClassName")
            if storage_class in reclaim and is_waiting(claim):
                self._provide(claim, reclaim[storage_class])
        for found in self._list(self._core.list_persistent_volume):
            if is_done(found):
                self._remove(found)

    def run(self) -> None:
        """Reconcile now, after every change, and every `RESYNC` seconds; never returns."""
        changed = threading.Event()
        for listing in (
            self._core.list_persistent_volume_claim_for_all_namespaces,
            self._core.list_persistent_volume,
        ):
            threading.Thread(target=_watch, args=(listing, changed), daemon=True).start()
        while True:
            changed.clear()
            try:
                self.reconcile()
            except UNREACHABLE as error:
                log.warning("will try again: %s", reason(error))
                time.sleep(RETRY)
            else:
                changed.wait(RESYNC)

    def _list(self, listing: Callable[..., Any]) -> list[Object]:
        items: list[Object] = kube.plain(self.api, listing(_request_timeout=LIMIT))["items"]
        return items

    def _provide(self, claim: Object, reclaim: str) -> None:
        meta = claim["metadata"]
        if (why := refusal(claim)) is not None:
            self._warn(meta, why)
            return
        path = self.volumes / f"pvc-{meta['uid']}"
        path.mkdir(exist_ok=True)
        # For whatever user the pod runs as. No other user has access: the parent is private.
        path.chmod(0o777)
        body: Any = volume(claim, reclaim, path, self.node)
        with _tolerated(409):
            self._core.create_persistent_volume(body, _request_timeout=LIMIT)
        log.info("%s/%s: %s", meta["namespace"], meta["name"], path)

    def _remove(self, found: Object) -> None:
        name = found["metadata"]["name"]
        path = self.volumes / name
        if found["spec"].get("local", {}).get("path") != str(path):
            log.error("%s is not at %s and is left alone", name, path)
            return
        if path.exists():
            shutil.rmtree(path)
        with _tolerated(404):
            self._core.delete_persistent_volume(name, _request_timeout=LIMIT)
        log.info("%s: removed", path)

    def _warn(self, meta: Object, why: str) -> None:
        """Record an event for `kubectl describe pvc`; once, since its name is the claim's."""
        event: Any = {
            "metadata": {"name": f"{meta['name']}.{meta['uid']}"},
            "involvedObject": claim_reference(meta),
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": why,
            "source": {"component": PROVISIONER},
        }
        with _tolerated(409):
            self._core.create_namespaced_event(meta["namespace"], event, _request_timeout=LIMIT)


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


def _watch(listing: Callable[..., Any], changed: threading.Event) -> None:
    while True:
        try:
            for _ in watch.Watch().stream(  # type: ignore[no-untyped-call]
                listing, timeout_seconds=WATCH
            ):
                changed.set()
        except UNREACHABLE as error:
            log.warning("watch ended: %s", reason(error))
            time.sleep(RETRY)


@contextmanager
def _tolerated(status: int) -> Iterator[None]:
    """Pass over the API server's answer that it is already so."""
    try:
        yield
    except client.ApiException as error:
        if error.status != status:
            raise


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
