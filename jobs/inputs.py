"""The artifacts that a run takes from others: found in their results, told to its pods. Pure."""

import copy
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from core.handler import Change
from jobs.spec import TrainingJob
from jobs.spec.inputs import Lent, literal
from jobs.spec.mounts import claim_name
from jobs.spec.names import INPUTS_CONTAINER

PROPERTY = "artifacts"
"""The run's input that has them: url and sha256 of each, or under `missing` why there is none."""


def found(job: TrainingJob, results: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return what the results of the jobs before `job` say of its inputs, by name.

    Args:
        job: Which takes them.
        results: By job; None of one that did not run, and then this one doesn't either.
    """
    return {
        name: _found(name, wanted.job, wanted.artifact, results[wanted.job] or {})
        for name, wanted in job.inputs.items()
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
    """Do nothing when all of them were found.

    Raises:
        RuntimeError: with all that were not, and what there is instead.
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
    whole = copy.deepcopy(dict(manifest))
    for replicas in whole["spec"]["pytorchReplicaSpecs"].values():
        for container in replicas["template"]["spec"].get("initContainers", []):
            if container["name"] == INPUTS_CONTAINER:
                told = map(json.loads, container["args"])
                container["args"] = [
                    literal(json.dumps({**each, **artifacts[each["name"]]})) for each in told
                ]
    return whole


def is_other_content(change: Change) -> bool:
    """Return whether an input is another file than before; the same one may have moved."""
    path = change.path.split(".")
    return path[0] == PROPERTY and path[-1] == "sha256" and change.kind == "update"


def lent(job: TrainingJob, others: Mapping[str, TrainingJob]) -> dict[str, Lent]:
    """Return the volumes of other jobs in which inputs of `job` lie, by the input's name."""
    lending = {name: _lending(others[wanted.job]) for name, wanted in job.inputs.items()}
    return {name: volume for name, volume in lending.items() if volume is not None}


def _lending(job: TrainingJob) -> Lent | None:
    """Return the volume that a job copies its outputs to; None when that is another store."""
    url = urlsplit("" if job.outputs is None else job.outputs)
    if url.scheme not in {"file", "local"}:
        return None
    directory = PurePosixPath(normpath(url.path))
    holding = {
        volume.mount_path: Lent(claim_name(job.name, name, volume), volume.mount_path)
        for name, volume in job.volumes.items()
        if volume.empty_dir is None and directory.is_relative_to(volume.mount_path)
    }
    # Of volumes within each other the inner one has the file.
    return holding[max(holding, key=len)] if holding else None
