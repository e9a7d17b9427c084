"""Lets the jobs' pods, and no others, through to the internet: keeps the set of internet.nft.

    python -m clusters.embedded.gateway KUBECONFIG

It looks every second: the rules may be made anew at any time, and a connection that a pod began
before its address was known is tried again by the kernel after one, too.
"""

import logging
import sys
import time
from pathlib import Path

from clusters.cluster import JOBS
from clusters.embedded.layout import API_LIMIT
from core import kube
from core.process import CommandFailed, run

_PODS = kube.Request(
    "GET",
    f"/api/v1/namespaces/{JOBS}/pods",
    {"labelSelector": "training.kubeflow.org/job-name", "resourceVersion": "0"},
)
_RULES = "flush set inet slipway jobs\n"
_SECONDS = 1.0

log = logging.getLogger("gateway")


def main() -> None:
    """Serve until ended."""
    api = kube.connect(Path(sys.argv[1]).read_text())
    while True:
        try:
            pods = kube.ask(api, _PODS, limit=API_LIMIT)["items"]
            statuses = [pod.get("status", {}) for pod in pods]
            # The address of one that has ended may be another's already.
            live = [each for each in statuses if each.get("phase") not in {"Succeeded", "Failed"}]
            found = ", ".join(each["podIP"] for each in live if "podIP" in each)
            more = f"add element inet slipway jobs {{ {found} }}\n" if found else ""
            run("nft", "-f", "-", text=f"{_RULES}{more}")
        except (*kube.UNREACHABLE, CommandFailed) as error:
            log.warning("will try again: %s", error)
        time.sleep(_SECONDS)


if __name__ == "__main__":
    main()
