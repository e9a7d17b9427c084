"""Everything that is submitted for a run: a job, and its pods' images, files and volumes.

The inputs to the resource `slipway:jobs:PyTorchJob` are these fields, in camelCase.
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
    """The inputs to a job's manifest. In a preview, a value may be unknown."""

    job: TrainingJob  # adapted to its cluster (`jobs.adapt`)
    image: Any  # for its pods
    namespace: str = JOBS
    account: str = JOB_ACCOUNT  # for its pods, which do not mount its token
    fetch_image: Any = None  # the trainer's, if files are fetched before the program starts
    script: MountedScript | None = None
    input_volumes: InputVolumes = field(default_factory=dict)
    keeps_data: bool = False  # whether the claim `slipway-data` caches the jobs' `data`
    place: str | None = None  # URL for the stack's files (`jobs.model.places`)
    stack: str | None = None  # `<project>/<stack>`, for checkpoints at the job's own URL
    artifacts: Any = None  # see `inputs.input_artifacts`
    tracking: Mapping[str, str] | None = None  # `kind`, `experiment`; for servers `url`, `address`
    succeeded: str | None = None  # the latest run that succeeded, if known; not an input

    def __post_init__(self) -> None:
        if (self.job.script is None) != (self.script is None):
            raise ValueError(f"job {self.job.name}: `script` and its files must be set together")

    def inputs(self) -> dict[str, Any]:
        """Return the inputs to the run's resource, except those that are None."""
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
        """Return the submission for a run's inputs; raise `RuntimeError` listing all problems."""
        job = check(TrainingJob, inputs["job"], "job")
        if isinstance(job, list):
            raise RuntimeError("\n".join(map(str, job)))  # noqa: TRY004  # these are problems
        names = {each.name: to_camel(each.name) for each in fields(cls)}
        values = {name: inputs[key] for name, key in names.items() if key in inputs}
        return cls(**{**values, "job": job})

    def decisive(self) -> dict[str, Any]:
        """Return all values that can alter the result; the job trains again if one changes."""
        # Only a file's content counts, not its location or name.
        artifacts = self.artifacts if isinstance(self.artifacts, Mapping) else {}
        return {
            "job": {**decisive(self.job), "name": self.job.origin},
            "image": self.image,
            "script": None if self.script is None else self.script["name"],
            "artifacts": {name: each.get("sha256") for name, each in artifacts.items()},
        }

    def digest(self) -> str:
        """Return a hash of the decisive values, to use as a label."""
        text = json.dumps(self.decisive(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
