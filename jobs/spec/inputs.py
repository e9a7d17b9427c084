"""The files that a job takes from other jobs: how its pods fetch and find them. Pure."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from jobs.spec.job import TrainingJob
from jobs.spec.names import INPUT_DIR, INPUTS_CONTAINER, OTHER_VOLUMES
from jobs.spec.volumes import claim_name

FETCH = ("python3", "-m", "slipway_trainer.inputs")


@dataclass(frozen=True)
class OtherVolume:
    """A volume of another job, in which an input lies.

    Args:
        claim: Its claim.
        mount_path: Where that job's pods have it.
    """

    claim: str
    mount_path: str


def environment(job: TrainingJob) -> dict[str, str]:
    """Return the variables with which a container finds its inputs."""
    return {
        f"SLIPWAY_INPUT_{name.upper()}": literal(_path(name, source.artifact))
        for name, source in job.inputs.items()
    }


def arguments(job: TrainingJob, others: Mapping[str, OtherVolume]) -> list[str]:
    """Return the arguments of the container that fetches inputs, before other jobs have run.

    `filled` adds what the other jobs' results have.
    """
    return [
        json.dumps(
            {
                "name": name,
                "job": source.job,
                "artifact": source.artifact,
                "path": _path(name, source.artifact),
                **({"mounted": [others[name].mount_path, _place(name)]} if name in others else {}),
            }
        )
        for name, source in job.inputs.items()
    ]


def volumes(job: TrainingJob, others: Mapping[str, OtherVolume]) -> list[dict[str, Any]]:
    """Return the volumes that a pod has for its inputs alone, each claim once."""
    own = _own(job)
    claims = dict.fromkeys(each.claim for each in others.values() if each.claim not in own)
    return [
        {"name": _volume(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims
    ]


def mounts(job: TrainingJob, others: Mapping[str, OtherVolume]) -> list[dict[str, Any]]:
    """Return where the fetching container finds the volumes that its inputs lie in."""
    own = _own(job)
    return [
        {
            "name": own.get(each.claim, _volume(each.claim)),
            "mountPath": _place(name),
            "readOnly": True,
        }
        for name, each in others.items()
    ]


def other_volumes(job: TrainingJob, others: Mapping[str, TrainingJob]) -> dict[str, OtherVolume]:
    """Return the volumes of other jobs in which inputs of `job` lie, by the input's name."""
    found = {name: _output_volume(others[source.job]) for name, source in job.inputs.items()}
    return {name: volume for name, volume in found.items() if volume is not None}


def _output_volume(job: TrainingJob) -> OtherVolume | None:
    """Return the volume that a job copies its outputs to; None when that is another store."""
    url = urlsplit("" if job.outputs is None else job.outputs)
    if url.scheme not in {"file", "local"}:
        return None
    directory = PurePosixPath(normpath(url.path))
    holding = {
        volume.mount_path: OtherVolume(claim_name(job.name, name, volume), volume.mount_path)
        for name, volume in job.volumes.items()
        if volume.empty_dir is None and directory.is_relative_to(volume.mount_path)
    }
    # Of volumes within each other the inner one has the file.
    return holding[max(holding, key=len)] if holding else None


def found(job: TrainingJob, results: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return url and sha256 of each of a job's inputs, or under `missing` why it has none.

    Args:
        job: Which takes them.
        results: Of the jobs before it, by name; None of one that did not run.
    """
    return {
        name: _found(name, source.job, source.artifact, results[source.job] or {})
        for name, source in job.inputs.items()
    }


def _found(name: str, job: str, artifact: str, result: Mapping[str, Any]) -> dict[str, str]:
    left = result.get("artifacts") or {}
    if artifact in left:
        return {key: left[artifact][key] for key in ("url", "sha256")}
    has = f"has {', '.join(sorted(left))}" if left else "has none"
    return {
        "missing": f"input {name}: job {job} succeeded but left no artifact {artifact}; its result "
        f"{has}. Let its program write the file into SLIPWAY_OUTPUT_DIR, or name another one; of "
        "very many files a result has only some (docs/files.md#outputs)"
    }


def require(artifacts: Mapping[str, Mapping[str, str]]) -> None:
    """Do nothing when all artifacts were found.

    Raises:
        RuntimeError: with all that were not, and what exists instead.
    """
    missing = [each["missing"] for each in artifacts.values() if "missing" in each]
    if missing:
        raise RuntimeError("\n".join(missing))


def filled(
    manifest: Mapping[str, Any], artifacts: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return a PyTorchJob whose pods know where their inputs are, and what they have to be.

    Raises:
        RuntimeError: some were not found.
    """
    require(artifacts)
    complete = copy.deepcopy(dict(manifest))
    for replicas in complete["spec"]["pytorchReplicaSpecs"].values():
        for container in replicas["template"]["spec"].get("initContainers", []):
            if container["name"] == INPUTS_CONTAINER:
                inputs = map(json.loads, container["args"])
                container["args"] = [
                    literal(json.dumps({**each, **artifacts[each["name"]]})) for each in inputs
                ]
    return complete


def literal(text: str) -> str:
    """Return `text` so that Kubernetes takes no $(…) in it for a variable."""
    return text.replace("$", "$$")


def _path(name: str, artifact: str) -> str:
    """Return where a container finds an input."""
    return f"{INPUT_DIR}/{name}/{PurePosixPath(artifact).name}"


def _own(job: TrainingJob) -> dict[str, str]:
    """Return the job's own volumes that are claims: their names, by claim."""
    return {
        claim_name(job.name, name, volume): name
        for name, volume in job.volumes.items()
        if volume.empty_dir is None
    }


def _place(name: str) -> str:
    return f"{OTHER_VOLUMES}/{name}"


def _volume(claim: str) -> str:
    """Return a volume's name that no volume of a job can have: it is longer than 30 characters."""
    return f"lent-{hashlib.sha256(claim.encode()).hexdigest()[:32]}"
