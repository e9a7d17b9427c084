"""The files that a job takes from other jobs: how its pods fetch and find them. Pure."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from jobs.spec.job import TrainingJob
from jobs.spec.names import INPUT_DIR, INPUTS_CONTAINER, KEPT, KEPT_VOLUME, OTHER_VOLUMES
from jobs.spec.volumes import claim_name

FETCH = ("python3", "-m", "slipway_trainer.inputs")


@dataclass(frozen=True)
class OtherVolume:
    """A volume of another job, in which an input lies: its claim, and where that job mounts it."""

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
    found = []
    for name, source in job.inputs.items():
        path = _path(name, source.artifact)
        known: dict[str, Any] = {"name": name, **asdict(source), "path": path}
        if name in others:
            known["mounted"] = [others[name].mount_path, f"{OTHER_VOLUMES}/{name}"]
        found.append(json.dumps(known))
    return found


def volumes(job: TrainingJob, others: Mapping[str, OtherVolume]) -> list[dict[str, Any]]:
    """Return the volumes that a pod has for its inputs alone, each claim once."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for claim, name in _volume_names(job, others).items()
        if name not in job.volumes
    ]


def mounts(job: TrainingJob, others: Mapping[str, OtherVolume]) -> list[dict[str, Any]]:
    """Return where the fetching container finds the volumes that its inputs lie in."""
    names = _volume_names(job, others)
    return [
        {"name": names[each.claim], "mountPath": f"{OTHER_VOLUMES}/{name}", "readOnly": True}
        for name, each in others.items()
    ]


def other_volumes(
    job: TrainingJob, others: Mapping[str, TrainingJob], *, has_volume: bool
) -> dict[str, OtherVolume]:
    """Return the volumes of other jobs in which inputs of `job` lie, by the input's name.

    With `has_volume` the stack has one on which jobs without `outputs` keep their files.
    """
    found = {
        name: _output_volume(others[source.job], has_volume) for name, source in job.inputs.items()
    }
    return {name: volume for name, volume in found.items() if volume is not None}


def _output_volume(job: TrainingJob, has_volume: bool) -> OtherVolume | None:
    """Return the volume that a job's files are copied to; None when that is another store."""
    if job.outputs is None:
        return OtherVolume(KEPT_VOLUME, KEPT) if has_volume else None
    url = urlsplit(job.outputs)
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

    `results` has those of the jobs before it, by name; None of one that did not run.
    """
    known = {}
    for name, source in job.inputs.items():
        left = (results[source.job] or {}).get("artifacts") or {}
        if (artifact := left.get(source.artifact)) is not None:
            known[name] = {key: artifact[key] for key in ("url", "sha256")}
            continue
        text = (
            f"input {name}: job {source.job} succeeded but left no artifact {source.artifact}; its "
            f"result has {', '.join(sorted(left)) or 'none'}. Let its program write the file into "
            "SLIPWAY_OUTPUT_DIR, or name another one; of very many files a result has only some, "
            "and none where nothing is kept (docs/files.md)"
        )
        known[name] = {"missing": text}
    return known


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
                container["args"] = [  # the job's data have no name, and are known already
                    literal(json.dumps({**each, **artifacts.get(each.get("name"), {})}))
                    for each in inputs
                ]
    return complete


def literal(text: str) -> str:
    """Return `text` so that Kubernetes takes no $(…) in it for a variable."""
    return text.replace("$", "$$")


def _path(name: str, artifact: str) -> str:
    """Return where a container finds an input."""
    return f"{INPUT_DIR}/{name}/{PurePosixPath(artifact).name}"


def _volume_names(job: TrainingJob, others: Mapping[str, OtherVolume]) -> dict[str, str]:
    """Return the names of the pod's volumes in which inputs lie, by claim: the job's own, if any.

    No volume of a job can have the name of another one, which is longer than 30 characters.
    """
    own = {KEPT_VOLUME: KEPT_VOLUME} | {
        claim_name(job.name, name, volume): name
        for name, volume in job.volumes.items()
        if volume.empty_dir is None
    }
    claims = dict.fromkeys(each.claim for each in others.values())
    hashed = {claim: hashlib.sha256(claim.encode()).hexdigest()[:32] for claim in claims}
    return {claim: own.get(claim, f"lent-{digest}") for claim, digest in hashed.items()}
