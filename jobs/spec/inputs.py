"""What a job takes from others: where its pods find it, and which container puts it there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from jobs.spec.job import TrainingJob
from jobs.spec.mounts import claim_name
from jobs.spec.names import INPUT_DIR, LENT
from jobs.spec.parts import JobInput

if TYPE_CHECKING:
    from pulumi import Input

FETCH = ("python3", "-m", "slipway_trainer.inputs")
_OF_THE_PROGRAM = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"})
"""Variables that mean something in the image of the job's program alone."""


@dataclass(frozen=True)
class Lent:
    """A volume of another job, in which an input lies.

    Args:
        claim: Its claim.
        mount_path: Where that job's pods have it.
    """

    claim: str
    mount_path: str


@dataclass(frozen=True)
class Fetching:
    """What it takes to fetch a job's inputs.

    Args:
        image: The trainer's, which does it, whatever image the job has.
        lent: The volumes of other jobs in which inputs lie, by the input's name.
    """

    image: Input[str]
    lent: Mapping[str, Lent] = field(default_factory=dict)


def path(name: str, wanted: JobInput) -> str:
    """Return where a container finds an input."""
    return f"{INPUT_DIR}/{name}/{PurePosixPath(wanted.artifact).name}"


def environment(job: TrainingJob) -> dict[str, str]:
    """Return the variables that tell a container where its inputs are."""
    return {
        f"SLIPWAY_INPUT_{name.upper()}": literal(path(name, wanted))
        for name, wanted in job.inputs.items()
    }


def told(job: TrainingJob, lent: Mapping[str, Lent]) -> list[str]:
    """Return what the fetching container is told of each input, before its job has run.

    `jobs.inputs.filled` adds what that job's result says.
    """
    return [
        json.dumps(
            {
                "name": name,
                "job": wanted.job,
                "artifact": wanted.artifact,
                "path": path(name, wanted),
                **({"mounted": [lent[name].mount_path, _place(name)]} if name in lent else {}),
            }
        )
        for name, wanted in job.inputs.items()
    ]


def of_the_job(variables: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of a container's variables that are meant for any image."""
    return [each for each in variables if each["name"] not in _OF_THE_PROGRAM]


def volumes(job: TrainingJob, lent: Mapping[str, Lent]) -> list[dict[str, Any]]:
    """Return the volumes of a pod that are there for its inputs alone, each claim once."""
    own = _own(job)
    claims = dict.fromkeys(each.claim for each in lent.values() if each.claim not in own)
    return [
        {"name": _volume(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims
    ]


def mounts(job: TrainingJob, lent: Mapping[str, Lent]) -> list[dict[str, Any]]:
    """Return where the fetching container finds the volumes that its inputs lie in."""
    own = _own(job)
    return [
        {
            "name": own.get(each.claim, _volume(each.claim)),
            "mountPath": _place(name),
            "readOnly": True,
        }
        for name, each in lent.items()
    ]


def literal(text: str) -> str:
    """Return `text` so that Kubernetes takes no $(…) in it for a variable."""
    return text.replace("$", "$$")


def _own(job: TrainingJob) -> dict[str, str]:
    """Return the job's own volumes that are claims: their names, by claim."""
    return {
        claim_name(job.name, name, volume): name
        for name, volume in job.volumes.items()
        if volume.empty_dir is None
    }


def _place(name: str) -> str:
    return f"{LENT}/{name}"


def _volume(claim: str) -> str:
    """Return a volume's name that no volume of a job can have: it is longer than 30 characters."""
    return f"lent-{hashlib.sha256(claim.encode()).hexdigest()[:32]}"
