"""From what a stack's configuration says of a job to a `TrainingJob`, or to all that is wrong."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from jobs.catalog import CATALOG
from jobs.spec import TrainingJob

_OWN_TO_CATALOG = {"name", "module"}
KEYS = tuple(
    to_camel(name) for name in TrainingJob.__dataclass_fields__ if name not in _OWN_TO_CATALOG
)
"""What a job's declaration may say."""

_JOB = TypeAdapter(TrainingJob)
_OWN = {"image", "command", "args"}
_OF_MODULE = {"epochs", "batchSize", "learningRate", "momentum", "seed"}
_NOT_YET = {"script", "build"}


@dataclass(frozen=True)
class Problem:
    """One thing that a declaration gets wrong.

    Args:
        key: Path below the job's own key, like `env.RANK`; empty for the job as a whole.
        value: What is there.
        allowed: What may be there instead.
    """

    key: str
    value: object
    allowed: str


class InvalidDeclarationError(ValueError):
    """A declaration with problems, all of them in `problems`."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{each.key or 'job'}: {each.allowed}" for each in problems))
        self.problems = problems


def declare(name: str, declared: object) -> TrainingJob:
    """Return the job `name`: an entry of the catalogue with fields overridden, or one's own.

    Args:
        name: Its key in `slipway:jobs`.
        declared: What stands there, as decoded from the configuration.

    Raises:
        InvalidDeclarationError: with every problem there is.
    """
    fields = {} if declared is None else declared
    if not isinstance(fields, Mapping):
        raise InvalidDeclarationError((Problem("", declared, "a map of fields, {} for none"),))
    entry = CATALOG.get(name)
    problems = [*_unknown_keys(fields), *_mixed(name, fields)]
    known = {key: value for key, value in fields.items() if key in KEYS}
    try:
        job = _JOB.validate_json(json.dumps({**_base(name, entry), **known}))
    except ValidationError as error:
        problems += [_problem(each, name) for each in error.errors()]
    if problems:
        raise InvalidDeclarationError(tuple(problems))
    return job


def cluster_problems(job: TrainingJob, gpus_per_node: int) -> tuple[Problem, ...]:
    """Return what of `job` a cluster with so many GPUs on a node cannot run."""
    if job.backend == "nccl" and gpus_per_node == 0:
        return (Problem("backend", "nccl", "gloo: nccl needs GPUs, and this cluster has none"),)
    return ()


def _base(name: str, entry: TrainingJob | None) -> dict[str, Any]:
    if entry is None:
        return {"name": name}
    return {to_camel(key): value for key, value in asdict(entry).items()}


def _unknown_keys(fields: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(key, fields[key], _instead(key, KEYS, "a key")) for key in fields if key not in KEYS
    ]


def _mixed(name: str, fields: Mapping[str, Any]) -> list[Problem]:
    """Return where fields of the catalogue's programs and of one's own do not go together."""
    if name in CATALOG:
        own = sorted(_OWN & fields.keys())
        allowed = f"left out: {name} runs the catalogue's program; give a job of another name"
        return [Problem(key, fields[key], allowed) for key in own]
    missing = [key for key in ("image", "command") if fields.get(key) is None]
    if len(missing) == 2 and not _NOT_YET & fields.keys():
        allowed = _instead(name, tuple(CATALOG), "a job of the catalogue")
        return [Problem("", name, f"{allowed}; or one's own, with `image` and `command`")]
    problems = [Problem(key, None, "given, for a job of one's own") for key in missing]
    allowed = "left out: only the catalogue's programs take it; a command has `args`"
    return problems + [
        Problem(key, fields[key], allowed) for key in sorted(_OF_MODULE & fields.keys())
    ]


def _instead(given: str, known: tuple[str, ...], what: str) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}{what} is one of {', '.join(known)}"


def _problem(error: Any, name: str) -> Problem:
    """Return one of pydantic's errors in our words."""
    key = ".".join(str(part) for part in error["loc"] if part != "[key]")
    if key == "name":
        allowed = "a DNS label: at most 40 of a-z, 0-9 and -, the first a letter, the last no -"
        return Problem("", name, allowed)
    message = str(error["msg"])
    for start in ("Input should be ", "Value error, ", "String should "):
        message = message.removeprefix(start)
    return Problem(key, error["input"], _PATTERNS.get(key, message))


_PATTERNS = {
    "command": "a list of at least one word",
    "cpu": "cores such as 2, 0.5 or 500m, above 0",
    "memory": "an amount with its unit, such as 512Mi or 2Gi",
}
