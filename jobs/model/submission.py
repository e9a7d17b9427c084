"""What is submitted for a run: a job, and the images, files and places that its pods get. Pure.

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
    """All that the manifest of a job follows from. In a preview a value may not be known yet."""

    job: TrainingJob  # as its cluster requires it (`jobs.adapt`)
    image: Any  # what its pods run
    namespace: str = JOBS
    account: str = JOB_ACCOUNT  # of its pods, whose token is not mounted
    fetch_image: Any = None  # the trainer's, where files are fetched before the program starts
    script: MountedScript | None = None
    input_volumes: InputVolumes = field(default_factory=dict)
    keeps_data: bool = False  # whether the claim `slipway-data` keeps jobs' `data`; else it goes
    place: str | None = None  # where the stack keeps files (`jobs.model.places`), if anywhere
    stack: str | None = None  # `<project>/<stack>`, where checkpoints are at a URL of the job's own
    artifacts: Any = None  # see `inputs.input_artifacts`
    tracking: Mapping[str, str] | None = None  # `kind`, `experiment`; a server's `url`, `address`
    succeeded: str | None = None  # the run before it that succeeded last, if known; no input

    def __post_init__(self) -> None:
        if (self.job.script is None) != (self.script is None):
            raise ValueError(f"job {self.job.name}: the files of its `script` and it go together")

    def inputs(self) -> dict[str, Any]:
        """Return it as the inputs of its run; what it does not have is left out."""
        known = {to_camel(each.name): getattr(self, each.name) for each in fields(self)}
        known |= {
            "job": declaration(self.job),
            "fetchImage": self.fetch_image if self.job.fetches else None,
            "inputVolumes": self.input_volumes or None,
            "keepsData": self.keeps_data or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> Self:
        """Return what the inputs of a run submit; raise `RuntimeError` with all that is wrong."""
        job = check(TrainingJob, inputs["job"], "job")
        if isinstance(job, list):
            raise RuntimeError("\n".join(map(str, job)))  # noqa: TRY004  # these are problems
        names = {each.name: to_camel(each.name) for each in fields(cls)}
        known = {name: inputs[key] for name, key in names.items() if key in inputs}
        return cls(**{**known, "job": job})

    def decisive(self) -> dict[str, Any]:
        """Return all that can alter the result, as far as known: nothing else trains again."""
        # Of files that is their content: where they are, or which file it was, may change.
        known = self.artifacts if isinstance(self.artifacts, Mapping) else {}
        return {
            "job": {**decisive(self.job), "name": self.job.origin},
            "image": self.image,
            "script": None if self.script is None else self.script["name"],
            "artifacts": {name: each.get("sha256") for name, each in known.items()},
        }

    def digest(self) -> str:
        """Return a hash of all that can alter the result, for a label."""
        text = json.dumps(self.decisive(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
