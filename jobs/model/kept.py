"""The place where a stack keeps its jobs' files, and how a pod gets to it. Pure.

The place is a URL that fsspec knows. Where it is `VOLUME_URL`, that is the volume of the claim
`slipway-kept`, which each pod that needs it has at /opt/kept. In either there are, unless a job has
a URL of its own for one of them:

    outputs/<job>/<run id>/    what rank 0 left in SLIPWAY_OUTPUT_DIR, and artifacts.json
    outputs/<job>/succeeded    the id of the last run whose program ended well
    checkpoints/<job>/<key>/   what a job resumes from; the key names its program with all settings

The agent in the pod writes and prunes outputs/ (`slipway_trainer.agent`); where checkpoints/ is in
a store, it copies them from and to a directory of the pod's. All of it is added when a job is
submitted: where files are kept, and how often they are written, can't alter a result.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobs.model.names import KEPT, KEPT_VOLUME, WORK
from jobs.model.pytorchjob import SECONDS_TO_COPY_OUT
from jobs.model.volumes import of_claim

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

VOLUME_URL = f"file://{KEPT}"
_SECONDS_TO_STOP = 30
"""Between SIGTERM and SIGKILL: the step at hand ends in that time, and its state is written."""
_DIGITS = 16


def outputs_url(place: str, job: str) -> str:
    """Return where the runs of a job keep their files, each in a folder of its own."""
    return f"{place}/outputs/{job}"


def keeping(manifest: Mapping[str, Any], url: str | None) -> dict[str, Any]:
    """Return a PyTorchJob whose rank 0 keeps its files at `url`; None keeps none.

    That is the Master, or in an elastic job, where each Worker may become rank 0, all of them.
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


def checkpoints(job: TrainingJob, place: str | None) -> dict[str, Any] | None:
    """Return a job's checkpoints as an input of its run; None where there is no place for them."""
    if (chosen := job.checkpoint) is None:
        return None
    url = place if chosen.url is None else chosen.url
    known = {"every": chosen.every, "keep": chosen.keep}
    return None if url is None else known if url == VOLUME_URL else {**known, "url": url}


def resuming(
    manifest: Mapping[str, Any], known: Mapping[str, Any] | None, every: int | None = None
) -> dict[str, Any]:
    """Return a PyTorchJob whose pods write checkpoints as `checkpoints` has it, and resume.

    They copy their files every so many seconds, not at their end alone.
    """
    complete = copy.deepcopy(dict(manifest))
    url = None if known is None else known.get("url")
    variables = {} if every is None else {"SLIPWAY_OUTPUTS_EVERY": str(every)}
    if known is not None:
        folder = f"checkpoints/{manifest['metadata']['name']}/{_key(manifest)}"
        variables |= {
            "SLIPWAY_CHECKPOINT_DIR": f"{KEPT if url is None else WORK}/{folder}",
            "SLIPWAY_CHECKPOINT_EVERY": known["every"],
            "SLIPWAY_CHECKPOINT_KEEP": str(known["keep"]),
        }
        if url is not None:
            variables["SLIPWAY_CHECKPOINT_URL"] = f"{url.rstrip('/')}/{folder}"
    for replicas in complete["spec"]["pytorchReplicaSpecs"].values():
        pod = replicas["template"]["spec"]
        pod["containers"][0]["env"] += [
            {"name": name, "value": value} for name, value in variables.items()
        ]
        if known is not None:
            pod["terminationGracePeriodSeconds"] = max(
                _SECONDS_TO_STOP if url is None else SECONDS_TO_COPY_OUT,
                pod["terminationGracePeriodSeconds"],
            )
            if url is None:
                mount(pod)
    return complete


def program(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job's checkpoints belong to: its program, arguments, variables and inputs.

    How many replicas there are, and what each asks for, is not part of it.
    """
    specs = manifest["spec"]["pytorchReplicaSpecs"]
    pod = next(iter(specs.values()))["template"]["spec"]
    parts = ("image", "command", "args", "env")
    return {
        "containers": [
            {part: container.get(part) for part in parts}
            for container in [*pod["containers"], *pod.get("initContainers", [])]
        ],
        "files": [each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each],
    }


def _key(manifest: Mapping[str, Any]) -> str:
    """Return the name of a program with its settings; in a preview they may not be known yet."""
    try:
        text = json.dumps(program(manifest), sort_keys=True)
    except TypeError:
        return "<known later>"
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


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
