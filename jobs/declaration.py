"""From what a stack's configuration says of a job to a `TrainingJob`, or to all that is wrong."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from core.problem import Problem
from core.text import choices, quote
from core.validation import check
from jobs.catalog import CATALOG
from jobs.spec import TrainingJob
from jobs.spec.consistency import NO_PROGRAM

_NOT_DECLARED = {"name", "module"}

KEYS = tuple(
    to_camel(name) for name in TrainingJob.__dataclass_fields__ if name not in _NOT_DECLARED
)
"""What a job's declaration may say."""


def declare(name: str, declared: object, key: str) -> TrainingJob | list[Problem]:
    """Return a job, or everything that is wrong with its declaration.

    Args:
        name: An entry of the catalogue, whose fields `declared` overrides, or one's own name.
        declared: Its fields, as decoded from the configuration; None is none.
        key: Where they stand in the configuration.
    """
    fields = {} if declared is None else declared
    if not isinstance(fields, Mapping):
        return [Problem(key, f"{quote(declared)} is not allowed; it takes a map, {{}} for none")]
    known = {field: value for field, value in fields.items() if field in KEYS}
    problems = [
        Problem(f"{key}.{field}", f"there is no such key; {choices(field, KEYS)}")
        for field in fields
        if field not in KEYS
    ]
    base = _base(name)
    job = check(TrainingJob, known, key, base=base)
    if isinstance(job, TrainingJob):
        return problems or job
    if any(each.key == f"{key}.name" for each in job):
        # What does not go together is told beside a wrong name, too.
        renamed = check(TrainingJob, known, key, base={**base, "name": "job"})
        job += [each for each in renamed if each not in job] if isinstance(renamed, list) else []
    return [*(_told(each, name, key) for each in job), *problems]


def _base(name: str) -> dict[str, Any]:
    """Return the fields that a declaration overrides, spelt as it spells them."""
    if name not in CATALOG:
        return {"name": name}
    dumped: dict[str, Any] = TypeAdapter(TrainingJob).dump_python(
        CATALOG[name], mode="json", by_alias=True, exclude_none=True
    )
    return dumped


def _told(problem: Problem, name: str, key: str) -> Problem:
    """Let a problem point to where it stands: the name is the job's own key."""
    if problem.key == f"{key}.name":
        return Problem(key, problem.text.replace(f"{quote(name)} is", f"the name {quote(name)} is"))
    if problem == Problem(key, NO_PROGRAM):
        text = (
            f"there is no such job in the catalogue; {choices(name, CATALOG.keys())}. As a job of"
        )
        return Problem(key, f"{text} one's own it {NO_PROGRAM}")
    return problem
