"""The place where a stack keeps its jobs' files, and how a pod gets to it. Pure.

The place is a URL that fsspec knows. Where it is `VOLUME_URL`, that is the volume of the claim
`slipway-kept`, which each pod that needs it has at /opt/kept. In either there are:

    outputs/<job>/<run id>/    what rank 0 left in SLIPWAY_OUTPUT_DIR, and artifacts.json
    outputs/<job>/succeeded    the id of the last run whose program ended well
    checkpoints/<job>/         what a job resumes from

The agent in the pod writes and prunes outputs/ (`slipway_trainer.agent`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from jobs.spec.names import KEPT, KEPT_VOLUME
from jobs.spec.pytorchjob import SECONDS_TO_COPY_OUT

VOLUME_URL = f"file://{KEPT}"
VARIABLE = "SLIPWAY_KEPT"
"""Where the agent copies a program's files that has no `outputs`."""


def outputs_url(place: str, job: str) -> str:
    """Return where the runs of a job keep their files, each in a folder of its own."""
    return f"{place}/outputs/{job}"


def is_on_volume(url: str) -> bool:
    """Return whether that is on the volume, and not in a store of its own."""
    return url.startswith(f"{VOLUME_URL}/")


def keeping(manifest: Mapping[str, Any], url: str | None) -> dict[str, Any]:
    """Return a PyTorchJob whose rank 0 keeps its files at `url`; None keeps none.

    That is the Master, or in an elastic job, where each Worker may become rank 0, all of them. It
    is added when a job is submitted: where a file is kept can't alter a result, so a change of it
    trains nothing.
    """
    complete = copy.deepcopy(dict(manifest))
    if url is None:
        return complete
    specs = complete["spec"]["pytorchReplicaSpecs"]
    for replicas in [specs["Master"]] if "Master" in specs else specs.values():
        pod = replicas["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = SECONDS_TO_COPY_OUT
        pod["containers"][0]["env"].append({"name": VARIABLE, "value": url})
        if is_on_volume(url):
            mount(pod)
    return complete


def mount(pod: dict[str, Any]) -> None:
    """Give a pod's containers the volume, unless they have it."""
    volumes = pod.setdefault("volumes", [])
    # No pod has a claim by two names: its containers would not start.
    names = [
        each["name"]
        for each in volumes
        if each.get("persistentVolumeClaim", {}).get("claimName") == KEPT_VOLUME
    ]
    if not names:
        names = [KEPT_VOLUME]
        bound = {"claimName": KEPT_VOLUME}
        volumes.append({"name": KEPT_VOLUME, "persistentVolumeClaim": bound})
    for container in pod["containers"]:
        mounts = container.setdefault("volumeMounts", [])
        if all(each["mountPath"] != KEPT for each in mounts):
            mounts.append({"name": names[0], "mountPath": KEPT})
