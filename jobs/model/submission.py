"""The submission of a run: a job, and the images, files and volumes of its pods. Pure.

The inputs of the resource `slipway:jobs:PyTorchJob` are its fields, in camelCase.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from pydantic.alias_generators import to_camel

from clusters.cluster import JOB_ACCOUNT, JOBS
from core.validation import check
from jobs.model.inputs import InputVolumes
from jobs.model.job import TrainingJob, decisive, declaration
from jobs.model.volumes import MountedScript


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The inputs of a job's manifest. In a preview a value may be unknown."""

    job: TrainingJob  # adapted to its cluster (`jobs.adapt`)
    image: Any  # of its pods
    namespace: str = JOBS
    account: str = JOB_ACCOUNT  # of its pods, whose token is not mounted
    fetch_image: Any = None  # the trainer's, where files are fetched before the program starts
    script: MountedScript | None = None
    input_volumes: InputVolumes = field(default_factory=dict)
    keeps_data: bool = False  # whether the claim `slipway-data` keeps jobs' `data`
    place: str | None = None  # URL of the stack's files (`jobs.model.places`)
    stack: str | None = None  # `<project>/<stack>`, for checkpoints at the job's own URL
    artifacts: Any = None  # see `inputs.input_artifacts`
    tracking: Mapping[str, str] | None = None  # `kind`, `experiment`; a server's `url`, `address`
    succeeded: str | None = None  # the latest run that succeeded, if known; no input

    def __post_init__(self) -> None:
        if (self.job.script is None) != (self.script is None):
            raise ValueError(f"job {self.job.name}: `script` and its files need each other")

    def inputs(self) -> dict[str, Any]:
        """Return the inputs of the run's resource, without those that are None."""
        values = {to_camel(each.name): getattr(self, each.name) for each in fields(self)}
        values |= {
            "job": declaration(self.job),
            "fetchImage": self.fetch_image if self.job.fetches else None,
            "inputVolumes": self.input_volumes or None,
            "keepsData": self.keeps_data or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> Self:
        """Return the submission of a run's inputs; raise `RuntimeError` with all their problems."""
        job = check(TrainingJob, inputs["job"], "job")
        if isinstance(job, list):
            raise RuntimeError("\n".join(map(str, job)))  # noqa: TRY004  # these are problems
        names = {each.name: to_camel(each.name) for each in fields(cls)}
        values = {name: inputs[key] for name, key in names.items() if key in inputs}
        return cls(**{**values, "job": job})

    def decisive(self) -> dict[str, Any]:
        """Return all values that can alter the result; only their changes train again."""
        # Only the content of a file counts, not its place or name.
        artifacts = self.artifacts if isinstance(self.artifacts, Mapping) else {}
        return {
            "job": {**decisive(self.job), "name": self.job.origin},
            "image": self.image,
            "script": None if self.script is None else self.script["name"],
            "artifacts": {name: each.get("sha256") for name, each in artifacts.items()},
        }

    def digest(self) -> str:
        """Return a hash of the decisive values, for a label."""
        text = json.dumps(self.decisive(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
