"""Restrict internet access to job pods and the pods that watch jobs, using internet.nft."""

import logging
import sys
import time
from pathlib import Path

from clusters.cluster import JOBS
from clusters.embedded.layout import API_LIMIT
from core import kube
from core.manifests import Manifest
from core.process import CommandFailed, run

_SLIPWAYS = "app.kubernetes.io/managed-by=slipway,app.kubernetes.io/name notin (mlflow, postgres)"
_OF_JOBS = {"labelSelector": _SLIPWAYS, "resourceVersion": "0"}
_PODS = kube.Request("GET", f"/api/v1/namespaces/{JOBS}/pods", _OF_JOBS)


def main() -> None:
    """Update the rules every second until killed. The program's argument is a kubeconfig's path."""
    api = kube.connect(Path(sys.argv[1]).read_text())
    while True:
        try:
            pods = kube.ask(api, _PODS, limit=API_LIMIT)["items"]
            run("nft", "-f", "-", text=rules([pod.get("status", {}) for pod in pods]))
        except (*kube.UNREACHABLE, CommandFailed) as error:
            logging.warning("will try again: %s", error)  # noqa: LOG015 - the only log
        time.sleep(1)  # the kernel also retries a pod's first connection after a second


def rules(statuses: list[Manifest]) -> str:
    """Return nft commands that allow only unfinished pods; others' addresses may be reused."""
    live = [each for each in statuses if each.get("phase") not in {"Succeeded", "Failed"}]
    addresses = ", ".join(each["podIP"] for each in live if "podIP" in each)
    added = f"add element inet slipway jobs {{ {addresses} }}\n" if addresses else ""
    return f"flush set inet slipway jobs\n{added}"


if __name__ == "__main__":
    main()
