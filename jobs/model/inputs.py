"""What a job's pods fetch before its program starts: `inputs` of other jobs, and `data`. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from posixpath import normpath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.manifests import KEPT_CLAIM, KEPT_DIRECTORY, Manifest
from jobs.model.names import CACHED_DATA, DATA_CACHE, INPUT_DIR, OTHER_VOLUMES, literal
from jobs.model.parts import Data
from jobs.model.volumes import claim, claim_name, of_claim

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

InputVolumes = Mapping[str, Mapping[str, str]]
"""The volumes of other jobs in which a job's inputs lie, by the input's name: the `claim` of each,
and the `mountPath` that the other job has it at."""
CACHE_MOUNT = {"name": DATA_CACHE, "mountPath": CACHED_DATA}
"""Where a container finds the cache."""


def environment(job: TrainingJob) -> dict[str, str]:
    """Return the variables with which a container finds its inputs and its data."""
    found = {
        f"SLIPWAY_INPUT_{name.upper()}": _path(name, source.artifact)
        for name, source in job.inputs.items()
    }
    if job.data is not None:
        folder = "" if job.data.url is None else f"/{job.data.sha256}"
        found["SLIPWAY_DATA_DIR"] = f"{_cache(job, job.data)}{folder}"
    return found


def arguments(job: TrainingJob, others: InputVolumes, artifacts: object) -> list[str]:
    """Return the arguments of the container that fetches files.

    `artifacts` is what `input_artifacts` returns, which a preview may not know yet.

    Raises:
        RuntimeError: artifacts are missing, with all of them and what exists instead.
    """
    left = artifacts if isinstance(artifacts, Mapping) else {}
    if missing := [each["missing"] for each in left.values() if "missing" in each]:
        raise RuntimeError("\n".join(missing))
    fetched = []
    for name, source in job.inputs.items():
        path = _path(name, source.artifact)
        fetch: dict[str, Any] = {"name": name, **asdict(source), "path": path}
        if name in others:
            fetch["mounted"] = [others[name]["mountPath"], f"{OTHER_VOLUMES}/{name}"]
        fetched.append({**fetch, **left.get(name, {})})
    if (data := job.data) is not None and data.url is not None:
        fetched.append({"url": data.url, "sha256": data.sha256, "cache": _cache(job, data)})
    return [literal(json.dumps(each)) for each in fetched]


def volumes(job: TrainingJob, others: InputVolumes, *, keeps_data: bool) -> list[dict[str, Any]]:
    """Return the volumes that a pod has for these files alone, each claim once."""
    names = _volume_names(job, others)
    sources = {name: of_claim(each) for each, name in names.items() if name not in job.volumes}
    if needs_cache(job):
        sources[DATA_CACHE] = of_claim(DATA_CACHE) if keeps_data else {"emptyDir": {}}
    return [{"name": name, **source} for name, source in sources.items()]


def mounts(job: TrainingJob, others: InputVolumes) -> list[dict[str, Any]]:
    """Return where the fetching container finds the volumes of its inputs and the cache."""
    names = _volume_names(job, others)
    listed: list[dict[str, Any]] = [
        {"name": names[each["claim"]], "mountPath": f"{OTHER_VOLUMES}/{name}", "readOnly": True}
        for name, each in others.items()
    ]
    return listed + ([CACHE_MOUNT] if needs_cache(job) else [])


def needs_cache(job: TrainingJob) -> bool:
    """Return whether the job's data are fetched, and into no volume of its own."""
    return job.data is not None and job.data.url is not None and job.data.volume is None


def cache_claim(namespace: str) -> Manifest:
    """Return the claim of the cache; it goes when no job needs it."""
    # Where a storage class keeps to that, larger data need a volume of the job.
    return claim(DATA_CACHE, namespace, "20Gi")


def other_volumes(
    job: TrainingJob, others: Mapping[str, TrainingJob], *, has_volume: bool
) -> InputVolumes:
    """Return the volumes of others that have inputs of `job`; `has_volume`: one is the stack's."""
    places = {
        name: _output_volume(others[source.job], has_volume) for name, source in job.inputs.items()
    }
    return {name: place for name, place in places.items() if place is not None}


def output_directory(job: TrainingJob) -> PurePosixPath | None:
    """Return the directory in a volume that `outputs` names; None where that is another store."""
    url = urlsplit(job.outputs or "")
    return PurePosixPath(normpath(url.path)) if url.scheme in {"file", "local"} else None


def _output_volume(job: TrainingJob, has_volume: bool) -> dict[str, str] | None:
    """Return the volume that a job's files are copied to; None when that is another store."""
    if job.outputs is None:
        return {"claim": KEPT_CLAIM, "mountPath": KEPT_DIRECTORY} if has_volume else None
    if (directory := output_directory(job)) is None:
        return None
    holding = [
        {"claim": claim_name(job.origin, name, volume), "mountPath": volume.mount_path}
        for name, volume in job.volumes.items()
        if volume.empty_dir is None and directory.is_relative_to(volume.mount_path)
    ]
    # Of volumes within each other the inner one has the file.
    return max(holding, key=lambda each: len(each["mountPath"]), default=None)


def input_artifacts(
    job: TrainingJob, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
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


def _path(name: str, artifact: str) -> str:
    return f"{INPUT_DIR}/{name}/{PurePosixPath(artifact).name}"


def _cache(job: TrainingJob, data: Data) -> str:
    """Return where a container finds what holds the job's data."""
    return CACHED_DATA if data.volume is None else job.volumes[data.volume].mount_path


def _volume_names(job: TrainingJob, others: InputVolumes) -> dict[str, str]:
    """Return the names of the pod's volumes with inputs, by claim: the job's own, if any."""
    own = {KEPT_CLAIM: KEPT_CLAIM} | {
        claim_name(job.origin, name, volume): name
        for name, volume in job.volumes.items()
        if volume.empty_dir is None
    }
    claims = dict.fromkeys(each["claim"] for each in others.values())
    hashed = {claim: hashlib.sha256(claim.encode()).hexdigest()[:32] for claim in claims}
    # No volume of a job can have such a name, which is longer than 30 characters.
    return {claim: own.get(claim, f"lent-{digest}") for claim, digest in hashed.items()}
