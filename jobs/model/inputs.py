"""Files that a pod fetches before its program starts: other jobs' files, and `data`."""

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
"""Other jobs' volumes that contain a job's inputs, keyed by input name: each volume's `claim`, and
its `mountPath` in the other job's pods."""
CACHE_MOUNT = {"name": DATA_CACHE, "mountPath": CACHED_DATA}
"""The mount of the data cache in a container."""


def environment(job: TrainingJob) -> dict[str, str]:
    """Return the environment variables with the paths of a job's inputs and data."""
    variables = {
        f"SLIPWAY_INPUT_{name.upper()}": _path(name, source.artifact)
        for name, source in job.inputs.items()
    }
    if job.data is not None:
        folder = "" if job.data.url is None else f"/{job.data.sha256}"
        variables["SLIPWAY_DATA_DIR"] = f"{_cache(job, job.data)}{folder}"
    return variables


def arguments(job: TrainingJob, others: InputVolumes, artifacts: object) -> list[str]:
    """Return the arguments for the container that fetches files.

    `artifacts` is what `input_artifacts` returns, which a preview may not know yet.

    Raises:
        RuntimeError: artifacts are missing; the message lists them and those that exist.
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
    """Return the volumes that a pod needs only for fetched files; each claim is listed once."""
    names = _volume_names(job, others)
    sources = {name: of_claim(each) for each, name in names.items() if name not in job.volumes}
    if needs_cache(job):
        sources[DATA_CACHE] = of_claim(DATA_CACHE) if keeps_data else {"emptyDir": {}}
    return [{"name": name, **source} for name, source in sources.items()]


def mounts(job: TrainingJob, others: InputVolumes) -> list[dict[str, Any]]:
    """Return the fetching container's mounts: the volumes for its inputs, and the cache."""
    names = _volume_names(job, others)
    listed: list[dict[str, Any]] = [
        {"name": names[each["claim"]], "mountPath": f"{OTHER_VOLUMES}/{name}", "readOnly": True}
        for name, each in others.items()
    ]
    return listed + ([CACHE_MOUNT] if needs_cache(job) else [])


def needs_cache(job: TrainingJob) -> bool:
    """Return whether the job's data is fetched to the cache, not to one of the job's volumes."""
    return job.data is not None and job.data.url is not None and job.data.volume is None


def cache_claim(namespace: str) -> Manifest:
    """Return the cache's claim, which is deleted once no job needs it."""
    # If a storage class enforces the size, larger data needs one of the job's own volumes.
    return claim(DATA_CACHE, namespace, "20Gi")


def other_volumes(
    job: TrainingJob, others: Mapping[str, TrainingJob], *, has_volume: bool
) -> InputVolumes:
    """Return the volumes that contain `job`'s inputs, which the jobs in `others` produce.

    `has_volume` is True if the stack keeps files in a volume.
    """
    places = {
        name: _output_volume(others[source.job], has_volume) for name, source in job.inputs.items()
    }
    return {name: place for name, place in places.items() if place is not None}


def output_directory(job: TrainingJob) -> PurePosixPath | None:
    """Return the directory, in a volume, that `outputs` names; None if it names another store."""
    url = urlsplit(job.outputs or "")
    return PurePosixPath(normpath(url.path)) if url.scheme in {"file", "local"} else None


def _output_volume(job: TrainingJob, has_volume: bool) -> dict[str, str] | None:
    """Return the volume that a job's files are copied to; None if they go elsewhere."""
    if job.outputs is None:
        return {"claim": KEPT_CLAIM, "mountPath": KEPT_DIRECTORY} if has_volume else None
    if (directory := output_directory(job)) is None:
        return None
    holding = [
        {"claim": claim_name(job.origin, name, volume), "mountPath": volume.mount_path}
        for name, volume in job.volumes.items()
        if volume.empty_dir is None and directory.is_relative_to(volume.mount_path)
    ]
    # If volumes are nested, the innermost one contains the file.
    return max(holding, key=lambda each: len(each["mountPath"]), default=None)


def input_artifacts(
    job: TrainingJob, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Return each input's `url` and `sha256` or, if the file does not exist, a message (`missing`).

    `results` maps the jobs that produce the inputs to their results, or to None if one did not run.
    """
    artifacts = {}
    for name, source in job.inputs.items():
        left = (results[source.job] or {}).get("artifacts") or {}
        if (artifact := left.get(source.artifact)) is not None:
            artifacts[name] = {key: artifact[key] for key in ("url", "sha256")}
            continue
        text = (
            f"input {name}: job {source.job} succeeded but left no artifact {source.artifact}; its "
            f"result lists {', '.join(sorted(left)) or 'none'}. Make its program write the file to "
            "SLIPWAY_OUTPUT_DIR, or choose another file. If there are very many files, a result "
            "lists only some, and if nothing is kept, none (docs/files.md)"
        )
        artifacts[name] = {"missing": text}
    return artifacts


def _path(name: str, artifact: str) -> str:
    return f"{INPUT_DIR}/{name}/{PurePosixPath(artifact).name}"


def _cache(job: TrainingJob, data: Data) -> str:
    """Return the mount path of the volume that stores the job's data."""
    return CACHED_DATA if data.volume is None else job.volumes[data.volume].mount_path


def _volume_names(job: TrainingJob, others: InputVolumes) -> dict[str, str]:
    """Return names for a pod's input volumes, keyed by claim; the job's own volumes keep theirs."""
    own = {KEPT_CLAIM: KEPT_CLAIM} | {
        claim_name(job.origin, name, volume): name
        for name, volume in job.volumes.items()
        if volume.empty_dir is None
    }
    claims = dict.fromkeys(each["claim"] for each in others.values())
    hashed = {claim: hashlib.sha256(claim.encode()).hexdigest()[:32] for claim in claims}
    # Longer than the 30 characters that a job's own volume may have, so they can't clash.
    return {claim: own.get(claim, f"lent-{digest}") for claim, digest in hashed.items()}
