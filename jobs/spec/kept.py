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
from jobs.spec.volumes import of_claim

VOLUME_URL = f"file://{KEPT}"


def outputs_url(place: str, job: str) -> str:
    """Return where the runs of a job keep their files, each in a folder of its own."""
    return f"{place}/outputs/{job}"


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
        pod["containers"][0]["env"].append({"name": "SLIPWAY_KEPT", "value": url})
        if url.startswith(f"{VOLUME_URL}/"):
            mount(pod)
    return complete


def mount(pod: dict[str, Any]) -> None:
    """Give a pod's containers the volume, unless they have it."""
    volumes, source = pod.setdefault("volumes", []), of_claim(KEPT_VOLUME)
    # No pod has a claim by two names: its containers would not start.
    if not (names := [each["name"] for each in volumes if source.items() <= each.items()]):
        names = [KEPT_VOLUME]
        volumes.append({"name": KEPT_VOLUME, **source})
    for container in pod["containers"]:
        mounts = container.setdefault("volumeMounts", [])
        if all(each["mountPath"] != KEPT for each in mounts):
            mounts.append({"name": names[0], "mountPath": KEPT})
