"""The places where a stack keeps its jobs' files, and how a pod gets to them. Pure.

The place is a URL that fsspec knows. Where it is `VOLUME_URL`, that is the volume of the claim
`slipway-kept`, which each pod that needs it has at /opt/kept. In either there are, unless a job has
a URL of its own for one of them:

    outputs/<job>/<run id>/    what rank 0 left in SLIPWAY_OUTPUT_DIR, and artifacts.json
    outputs/<job>/succeeded    the id of the last run whose program ended well
    checkpoints/<job>/<key>/   what a job resumes from; the key names its program with all settings

The agent in the pod writes and prunes outputs/ (`slipway_trainer.agent`); where checkpoints/ is in
a store, it copies them from and to a directory of the pod's. Where files are kept, how often they
are written, and where a run is tracked can't alter a result.

Of a tracked run the agent in each pod sends the ranks' events on, by these variables:

    SLIPWAY_TRACKING             mlflow, wandb or tensorboard
    SLIPWAY_TRACKING_URL         of the server, as pods reach it
    SLIPWAY_TRACKING_ADDRESS     of the server, as a browser reaches it
    SLIPWAY_TRACKING_EXPERIMENT  <stack>/<job>
    SLIPWAY_TRACKING_FACTS       what trains, as JSON: revision, image, data, settings
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs.model.names import KEPT, KEPT_VOLUME, WORK, outputs_url
from jobs.model.volumes import of_claim

if TYPE_CHECKING:
    from jobs.model.job_fields import JobFields
    from jobs.model.replicas import Role
    from jobs.model.submission import Submission

VOLUME_URL = f"file://{KEPT}"
SECONDS_TO_COPY_OUT = 60
"""Between SIGTERM and SIGKILL: what a program leaves is copied in that time."""
_SECONDS_TO_STOP = 10
_SECONDS_TO_WRITE = 30
"""The step at hand ends in that time, and its state is written."""
_TRACKING = "SLIPWAY_TRACKING"


@dataclass
class Added:
    """What a role's pods have besides, for the files that they write."""

    variables: dict[str, str] = field(default_factory=dict)
    needs_volume: bool = False
    seconds_to_stop: int = _SECONDS_TO_STOP


def checkpoints_url(job: JobFields, place: str | None) -> str | None:
    """Return where a job's checkpoints are; None where it has none, or no place for them."""
    if job.checkpoint is None:
        return None
    return place if job.checkpoint.url is None else job.checkpoint.url


def added(submission: Submission, role: Role, key: str) -> Added:
    """Return what the pods of a role have besides; `key` names the checkpoints' program.

    Rank 0 keeps its files: that is the Master, or in an elastic job, where each Worker may become
    rank 0, all of them.
    """
    job, place = submission.job, submission.place
    more = Added(seconds_to_stop=_SECONDS_TO_STOP if job.outputs is None else SECONDS_TO_COPY_OUT)
    if job.outputs_every is not None:
        more.variables["SLIPWAY_OUTPUTS_EVERY"] = str(job.outputs_every)
    if job.checkpoint is not None and (url := checkpoints_url(job, place)) is not None:
        folder, is_store = f"checkpoints/{job.name}/{key}", url != VOLUME_URL
        more.variables |= {
            "SLIPWAY_CHECKPOINT_DIR": f"{WORK if is_store else KEPT}/{folder}",
            "SLIPWAY_CHECKPOINT_EVERY": job.checkpoint.every,
            "SLIPWAY_CHECKPOINT_KEEP": str(job.checkpoint.keep),
        }
        if is_store:
            more.variables["SLIPWAY_CHECKPOINT_URL"] = f"{url.rstrip('/')}/{folder}"
        more.needs_volume |= not is_store
        seconds = SECONDS_TO_COPY_OUT if is_store else _SECONDS_TO_WRITE
        more.seconds_to_stop = max(seconds, more.seconds_to_stop)
    kept = outputs_url(place, job.name, job.outputs)
    if kept is not None and (role == "Master" or job.elastic is not None):
        more.variables["SLIPWAY_KEPT"] = kept
        more.needs_volume |= kept.startswith(f"{VOLUME_URL}/")
        more.seconds_to_stop = SECONDS_TO_COPY_OUT
    return more


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


def tracking_variables(
    tracking: Mapping[str, str] | None, facts: Mapping[str, Any] | None
) -> dict[str, str]:
    """Return the variables of a tracked run's pods; none where it is not tracked."""
    if tracking is None:
        return {}
    known = {
        f"{_TRACKING}_{key.upper()}": value for key, value in tracking.items() if key != "kind"
    }
    described = {} if facts is None else {f"{_TRACKING}_FACTS": json.dumps(facts, sort_keys=True)}
    return {_TRACKING: tracking["kind"], **known, **described}
