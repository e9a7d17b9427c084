"""From what a stack's configuration says of a job to a `TrainingJob`, or to all that is wrong."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic.alias_generators import to_camel

from infra.validation import Problem, check, choices, quote
from jobs.catalog import CATALOG
from jobs.spec import TrainingJob

_NOT_DECLARED = {"name", "module"}
_OWN = {"image", "command", "args"}
_OF_MODULE = {"epochs", "batchSize", "learningRate", "momentum", "seed"}

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
    job = check(TrainingJob, known, key, base=_base(name))
    wrong = [] if isinstance(job, TrainingJob) else [_named(each, name, key) for each in job]
    unknown = [
        Problem(f"{key}.{field}", f"there is no such key; {choices(field, KEYS)}")
        for field in fields
        if field not in KEYS
    ]
    # Of a field that doesn't belong there at all it need not be said that its value is wrong, too.
    problems = {problem.key: problem for problem in [*wrong, *_mixed(name, fields, key), *unknown]}
    if problems or isinstance(job, list):
        return list(problems.values())
    return job


def cluster_problems(job: TrainingJob, gpus_per_node: int, key: str) -> list[Problem]:
    """Return what of `job`, declared at `key`, a cluster with so many GPUs on a node cannot run."""
    if job.backend == "nccl" and gpus_per_node == 0:
        text = '"nccl" needs GPUs, and this cluster has none; remove the job or use "gloo"'
        return [Problem(f"{key}.backend", text)]
    return []


def _base(name: str) -> dict[str, Any]:
    if name not in CATALOG:
        return {"name": name}
    return {to_camel(field): value for field, value in asdict(CATALOG[name]).items()}


def _mixed(name: str, fields: Mapping[str, Any], key: str) -> list[Problem]:
    """Return where fields of the catalogue's programs and of one's own do not go together."""
    if name in CATALOG:
        text = f"{name} runs the catalogue's program; give a job of one's own another name"
        return [Problem(f"{key}.{field}", text) for field in sorted(_OWN & fields.keys())]
    if not _OWN & fields.keys():
        text = (
            f"there is no such job in the catalogue; {choices(name, CATALOG.keys())}. "
            "A job of one's own has an `image` and a `command`"
        )
        return [Problem(key, text)]
    text = "only the catalogue's programs take it; a command has `args`"
    return [
        *(
            Problem(f"{key}.{field}", "is missing; a job of one's own has it")
            for field in ("image", "command")
            if fields.get(field) is None
        ),
        *(Problem(f"{key}.{field}", text) for field in sorted(_OF_MODULE & fields.keys())),
    ]


def _named(problem: Problem, name: str, key: str) -> Problem:
    """Let a problem with the job's name point to where it stands: it is the job's own key."""
    if problem.key != f"{key}.name":
        return problem
    return Problem(key, problem.text.replace(f"{quote(name)} is", f"the name {quote(name)} is"))
