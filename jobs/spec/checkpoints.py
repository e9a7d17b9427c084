"""Where a job's checkpoints are, and how its pods find them. Pure.

On the volume where a stack keeps its jobs' files they are in checkpoints/<job>/<program>/, of which
the last part names the program with all its settings: a declaration with others begins anew.
It is added when a job is submitted: how often a state is written can't alter a result, so a change
of it trains nothing.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jobs.spec.job import TrainingJob
from jobs.spec.kept import VOLUME_URL, mount
from jobs.spec.names import KEPT

_SECONDS_TO_STOP = 30
"""Between SIGTERM and SIGKILL: the step at hand ends in that time, and its state is written."""
_DIGITS = 16


def settings(job: TrainingJob, place: str | None) -> dict[str, Any] | None:
    """Return a job's checkpoints as an input of its run; None unless `place` is the volume."""
    return None if job.checkpoint is None or place != VOLUME_URL else asdict(job.checkpoint)


def resuming(manifest: Mapping[str, Any], known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a PyTorchJob whose pods write checkpoints as `settings` has it, and resume."""
    complete = copy.deepcopy(dict(manifest))
    if known is None:
        return complete
    folder = f"{KEPT}/checkpoints/{manifest['metadata']['name']}/{_key(manifest)}"
    variables = {
        "SLIPWAY_CHECKPOINT_DIR": folder,
        "SLIPWAY_CHECKPOINT_EVERY": known["every"],
        "SLIPWAY_CHECKPOINT_KEEP": str(known["keep"]),
    }
    for replicas in complete["spec"]["pytorchReplicaSpecs"].values():
        pod = replicas["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = max(
            _SECONDS_TO_STOP, pod["terminationGracePeriodSeconds"]
        )
        pod["containers"][0]["env"] += [
            {"name": name, "value": value} for name, value in variables.items()
        ]
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
