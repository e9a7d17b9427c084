"""Provision a directory on the node for each claim that uses the default StorageClass.

    python -m clusters.embedded.provisioner KUBECONFIG VOLUMES NODE

A volume is a `local` PersistentVolume: unlike with `hostPath`, the kubelet assigns its directory
to the pod's fsGroup. The claim's size is not enforced.
"""

import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.watch import Watch

from clusters.embedded.layout import API_LIMIT, PROVISIONER
from core import kube
from core.kube import Request
from core.manifests import Manifest, rendered

WATCH = 300
"""Seconds per watch. Each watch starts with all objects, so a missed change is handled then."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"

log = logging.getLogger("provisioner")


@dataclass(frozen=True)
class Provisioner:
    """Creates and removes directories and PersistentVolumes for claims."""

    api: ApiClient
    volumes: Path
    node: str

    def run(self) -> None:
        """Handle all existing claims and volumes, then each change to them. Never returns."""
        threading.Thread(target=self._follow, args=(_VOLUMES, self.remove), daemon=True).start()
        self._follow(_CLAIMS, self.provide)

    def provide(self, claim: Manifest) -> None:
        """Create the volume for a claim that is waiting for this provisioner. Idempotent."""
        if not is_waiting(claim):
            return
        kind = self._ask(Request("GET", f"{_CLASSES}/{claim['spec']['storageClassName']}"), 404)
        if kind is None or kind["provisioner"] != PROVISIONER:
            return
        path = self.volumes / f"pvc-{claim['metadata']['uid']}"
        path.mkdir(exist_ok=True)
        # A pod may run as any user. The host's other users have no access: the parent is private.
        path.chmod(0o777)
        body = volume(claim, kind["reclaimPolicy"], path, self.node)
        self._ask(Request("POST", _VOLUMES, body=body), 409)
        log.info("%s/%s: %s", claim["metadata"]["namespace"], claim["metadata"]["name"], path)

    def remove(self, item: Manifest) -> None:
        """Remove a volume and its data if it is this provisioner's and was released. Idempotent."""
        if not is_done(item):
            return
        name = item["metadata"]["name"]
        path = self.volumes / name
        if item["spec"].get("local", {}).get("path") != str(path):
            log.error("keeping %s, because its location is not %s", name, path)
            return
        if path.exists():
            shutil.rmtree(path)
        self._ask(Request("DELETE", f"{_VOLUMES}/{name}"), 404)
        log.info("%s: removed", path)

    def _follow(self, path: str, act: Callable[[Manifest], None]) -> None:
        # Without a version, a watch starts with the existing objects:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch
        request = Request("GET", path, {"watch": "true", "timeoutSeconds": str(WATCH)})
        limit = (API_LIMIT[0], WATCH + API_LIMIT[1])
        while True:
            stream = Watch().stream(  # type: ignore[no-untyped-call]
                lambda **_: kube.send(self.api, request, limit=limit), timeout_seconds=WATCH
            )
            try:
                for change in stream:
                    if change["type"] != "DELETED":
                        act(change["raw_object"])
            except kube.UNREACHABLE as error:
                log.warning("will try again: %s", kube.reason(error))
                time.sleep(1)

    def _ask(self, request: Request, settled: int) -> Any:
        return kube.ask(self.api, request, limit=API_LIMIT, settled=settled)


def volume(claim: Manifest, reclaim: str, path: Path, node: str) -> Manifest:
    """Return the PersistentVolume for a claim."""
    spec, storage = claim["spec"], claim["spec"]["resources"]["requests"]["storage"]
    names = {name: claim["metadata"][name] for name in ("namespace", "name", "uid")}
    names |= {"volume": path.name, "node": node, "kind": spec["storageClassName"]}
    names |= {"provisioned_by": PROVISIONED_BY, "provisioner": PROVISIONER}
    file = Path(__file__).with_name("volume.yaml")
    (made,) = rendered(file, **names, storage=storage, reclaim=reclaim)
    made["spec"] |= {"accessModes": spec["accessModes"], "local": {"path": str(path)}}
    return made


def is_waiting(claim: Manifest) -> bool:
    """Return whether a claim has a StorageClass and is waiting for an empty volume."""
    spec = claim["spec"]
    # The API server copies a `dataSource` to `dataSourceRef`.
    settled = {"volumeName", "dataSourceRef", "deletionTimestamp"} & {*spec, *claim["metadata"]}
    return bool(spec.get("storageClassName")) and not settled


def is_done(item: Manifest) -> bool:
    """Return whether a volume is this provisioner's, released, and to be deleted with its data."""
    ours = item["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
    deletes = item["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    return ours and deletes and item["status"].get("phase") in {"Released", "Failed"}


def main() -> None:
    """Run the provisioner until killed."""
    kubeconfig, volumes, node = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    Provisioner(kube.connect(Path(kubeconfig).read_text()), Path(volumes), node).run()


if __name__ == "__main__":
    main()
