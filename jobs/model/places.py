"""The location where a stack keeps its jobs' files, and how pods access it.

The location, or place, is a URL that fsspec supports. `VOLUME_URL` stands for the volume of the
claim `slipway-kept`, which is mounted at /opt/kept in each pod that needs it. Unless a job sets its
own URL for its outputs or checkpoints, a place contains:

    outputs/<job>/<run id>/    files from rank 0's SLIPWAY_OUTPUT_DIR, and artifacts.json
    checkpoints/<job>/<key>/   a job's checkpoints; the key is a hash of its program and settings

At a job's own URL, which other stacks may share, the folder is checkpoints/<project>/<stack>/….

The agent in the pod (`slipway_trainer.agent`) writes and prunes outputs/. It copies checkpoints/
between a store and a directory in the pod. For a tracked run, it sends the ranks' events to
SLIPWAY_TRACKING (mlflow, wandb or tensorboard). Variables with this prefix contain the server's URL
(_URL), its address for browsers (_ADDRESS), the experiment <stack>/<job> (_EXPERIMENT), and the
run's provenance as JSON (_FACTS). None of these variables can alter a result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.manifests import KEPT_CLAIM, KEPT_DIRECTORY
from jobs.model.names import USER, WORK, literal, outputs_url
from jobs.model.volumes import of_claim
from slipway.drill import DRILL

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob
    from jobs.model.program import Role
    from jobs.model.submission import Submission

Map = Mapping[str, Any]
VOLUME_URL = f"file://{KEPT_DIRECTORY}"
_SECONDS_TO_COPY_OUT = 60
"""Grace period between SIGTERM and SIGKILL, in which a pod copies its outputs."""
_TRACKING = "SLIPWAY_TRACKING"


def checkpoints_url(job: TrainingJob, place: str | None) -> str | None:
    """Return the URL for a job's checkpoints, or None if none are written or there is no place."""
    if job.checkpoint is None:
        return None
    return place if job.checkpoint.url is None else job.checkpoint.url


def prepare(
    pod: dict[str, Any], submission: Submission, role: Role, key: str, facts: Map | None
) -> None:
    """Add the variables and the volume that kept files and tracking need to a role's pods.

    `key` names the checkpoints (`manifest.checkpoint_key`), and `facts` is the run's provenance.
    """
    job, place = submission.job, submission.place
    # Only rank 0's files are kept. In an elastic job, any Worker may become rank 0.
    may_be_rank_0 = role == "Master" or job.elastic is not None
    variables = _declared(job, may_be_rank_0=may_be_rank_0)
    needs_volume = False
    # Python as process 1 ignores SIGTERM, so a stop takes the full grace period.
    seconds = 10 if job.outputs is None else _SECONDS_TO_COPY_OUT
    if job.checkpoint is not None and (url := checkpoints_url(job, place)) is not None:
        folder, is_store = f"checkpoints/{job.origin}/{key}", url != VOLUME_URL
        stack = None if job.checkpoint.url is None else submission.stack
        variables |= {
            "SLIPWAY_CHECKPOINT_DIR": f"{WORK if is_store else KEPT_DIRECTORY}/{folder}",
            "SLIPWAY_CHECKPOINT_EVERY": job.checkpoint.every,
            "SLIPWAY_CHECKPOINT_KEEP": str(job.checkpoint.keep),
        }
        if is_store:
            own = folder if stack is None else f"checkpoints/{stack}/{job.origin}/{key}"
            variables["SLIPWAY_CHECKPOINT_URL"] = f"{url.rstrip('/')}/{own}"
        needs_volume = not is_store
        # Time to finish the current step and write a checkpoint.
        seconds = max(_SECONDS_TO_COPY_OUT if is_store else 30, seconds)
    kept = outputs_url(place, job.origin, job.outputs)
    if kept is not None and may_be_rank_0:
        variables["SLIPWAY_KEPT"] = kept
        if submission.succeeded is not None:
            variables["SLIPWAY_SUCCEEDED"] = submission.succeeded
        needs_volume |= kept.startswith(f"{VOLUME_URL}/")
        seconds = _SECONDS_TO_COPY_OUT
    variables |= tracking_variables(submission.tracking, facts)
    pod["containers"][0]["env"] += [
        {"name": name, "value": literal(value)} for name, value in variables.items()
    ]
    pod["terminationGracePeriodSeconds"] = seconds
    if needs_volume:
        mount(pod)


def _declared(job: TrainingJob, *, may_be_rank_0: bool) -> dict[str, str]:
    """Return the environment variables that pass a job's fields to the launcher."""
    fields = {
        "SLIPWAY_HOLD": job.hold or None,
        "SLIPWAY_OUTPUTS_EVERY": job.outputs_every,
        "SLIPWAY_DEBUG": job.debug,
        DRILL: None if job.drill is None else f"{job.drill.rank} {job.drill.step}",
        "SLIPWAY_KEEP": None if job.keep is None else json.dumps(job.keep),
    }
    variables = {name: str(value) for name, value in fields.items() if value is not None}
    if job.metrics and (may_be_rank_0 or job.drill is not None):
        variables["SLIPWAY_METRICS"] = json.dumps(job.metrics, sort_keys=True)
    if (job.image is not None or job.build is not None) and "USER" not in job.env:
        variables["USER"] = USER  # the image may lack an entry for the user that pods run as
    return variables


def mount(pod: Map) -> None:
    """Mount the volume for kept files in a pod's containers, unless it is already mounted."""
    source = of_claim(KEPT_CLAIM)
    # A pod that lists a claim under two names would not start.
    names = [each["name"] for each in pod["volumes"] if source.items() <= each.items()]
    if not names:
        names = [KEPT_CLAIM]
        pod["volumes"].append({"name": KEPT_CLAIM, **source})
    for container in pod["containers"]:
        if all(each["mountPath"] != KEPT_DIRECTORY for each in container["volumeMounts"]):
            container["volumeMounts"].append({"name": names[0], "mountPath": KEPT_DIRECTORY})


def tracking_variables(tracking: Mapping[str, str] | None, facts: Map | None) -> dict[str, str]:
    """Return the tracking variables for a run's pods; none if the run is not tracked."""
    if tracking is None:
        return {}
    variables = {f"{_TRACKING}_{key.upper()}": value for key, value in tracking.items()}
    if facts is not None:
        variables[f"{_TRACKING}_FACTS"] = json.dumps(facts, sort_keys=True)
    return {_TRACKING: variables.pop(f"{_TRACKING}_KIND"), **variables}
