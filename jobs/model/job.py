"""A training job, and what of it a run's inputs and its hash have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Self

from pydantic import TypeAdapter, model_validator
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from core.fields import CONFIG
from core.validation import contradictory
from jobs.model import fields
from jobs.model.consistency import contradictions
from jobs.model.job_fields import JobFields
from jobs.model.parts import MODULES


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class TrainingJob(JobFields):
    """One distributed training run. In the stack's configuration the keys are camelCase.

        TrainingJob(
            name="mine",
            script="train.py",
            workers=3,
            env={"TOKEN": SecretKey(secret="hub", key="token")},
            volumes={"data": Volume(claim="images", mount_path="/data", read_only=True)},
        )

    A job has exactly one of `module`, `script`, `build`, and `image` with `command`.

    Raises:
        pydantic.ValidationError: with every field that is not allowed, and what contradicts itself.
    """

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := contradictions(self):
            raise contradictory(found)
        if self.module is not None:
            for name, default in MODULES[self.module].defaults.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, default)  # frozen only once it is complete
        return self


def fields_of(part: type[Any]) -> Mapping[str, FieldInfo]:
    """Return the fields of a job, or of one of its parts, by their names."""
    known: Mapping[str, FieldInfo] = part.__pydantic_fields__
    return known


def _effect(field: FieldInfo) -> fields.Effect | None:
    return next((each for each in field.metadata if isinstance(each, fields.Effect)), None)


EFFECTS: Mapping[str, fields.Effect | None] = {
    to_camel(name): _effect(field) for name, field in fields_of(TrainingJob).items()
}
"""What another value of each field does, by its key in the stack's configuration.

A run's diff, its hash, its preview and the table in docs/jobs.md follow from it. Fields of a
field's own value that have no effect of their own have that field's.
"""


def declaration(job: TrainingJob) -> dict[str, Any]:
    """Return a job as the inputs of its run have it, spelt as in the stack's file.

    Empty values are left out, and so are the fields that judge a run.
    """
    dumped = TypeAdapter(TrainingJob).dump_python(job, mode="json", by_alias=True)
    return {
        key: value
        for key, value in dumped.items()
        if EFFECTS[key] is not fields.Effect.JUDGES and value not in (None, {}, [])
    }


def decisive(value: Any) -> Any:
    """Return what of a job, or of a part of one, can alter the result of its run."""
    if isinstance(value, Mapping):
        return {key: decisive(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [*map(decisive, value)]
    if not is_dataclass(value):
        return value
    found = {
        to_camel(name): decisive(getattr(value, name))
        for name, field in fields_of(type(value)).items()
        if _effect(field) in {None, fields.Effect.TRAINS}
    }
    return {key: each for key, each in found.items() if each not in (None, {}, [])}
