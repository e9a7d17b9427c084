"""Fields of a job that do not go together, whatever the cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from infra.problem import Contradiction
from infra.words import quote
from jobs.spec import mount_rules
from jobs.spec.modules import HYPERPARAMETERS, MODULES
from jobs.spec.names import THREADS

if TYPE_CHECKING:
    from jobs.spec.job import TrainingJob

_PROGRAMS = ("script", "build", "image")
_OWN = (*_PROGRAMS, "command", "script_entry")


def contradictions(job: TrainingJob) -> list[Contradiction]:
    """Return everything in `job` that does not go together."""
    rules = (
        *(_program, _command, _hyperparameters, _elastic, _threads),
        *(_gpus, mount_rules.volumes, _tolerations),
    )
    return [each for rule in rules for each in rule(job)]


def _program(job: TrainingJob) -> Iterator[Contradiction]:
    given = [name for name in _PROGRAMS if getattr(job, name) is not None]
    if job.module is not None:
        text = f"{job.name} runs the catalogue's program; give a job of one's own another name"
        for name in _OWN:
            if getattr(job, name) is not None:
                yield _of((name,), text)
    elif not given and job.command is None:
        yield Contradiction((), NO_PROGRAM, frozenset(_OWN))
    for name in given[1:]:
        text = f"goes with no `{given[0]}`; a job has exactly one of script, build and image"
        yield _of((name,), text, given[0])


NO_PROGRAM = "has nothing to run; a job has a `script`, a `build`, or an `image` and a `command`"


def _command(job: TrainingJob) -> Iterator[Contradiction]:
    if job.module is not None:
        return
    if job.command is not None and job.script is not None:
        yield _of(
            ("command",), "goes with no `script`, which python3 runs; it has `args`", "script"
        )
    elif job.command is not None and job.image is None and job.build is None:
        yield _of(("image",), "is missing; a `command` has an `image` or a `build`", "command")
    if job.image is not None and job.command is None:
        yield _of(("command",), "is missing; an `image` has it", "image")
    if job.script_entry is not None and job.script is None:
        yield _of(("script_entry",), "goes with a `script` that is a folder", "script")


def _hyperparameters(job: TrainingJob) -> Iterator[Contradiction]:
    if job.module is not None or all(getattr(job, name) is None for name in _OWN):
        return
    for name in HYPERPARAMETERS:
        if getattr(job, name) is not None:
            yield _of((name,), "only the catalogue's programs take it; one's own has `args`")


def _elastic(job: TrainingJob) -> Iterator[Contradiction]:
    if job.elastic is None:
        if job.module is not None and MODULES[job.module].is_elastic:
            yield _of(("elastic",), f"is missing; {job.name} needs it", "module")
        return
    least, most = job.elastic.min_replicas, job.elastic.max_replicas
    if job.workers < least:
        text = f"{least} is more than the {job.workers} of `workers`"
        yield _of(("elastic", "minReplicas"), text, "workers")
    if most is not None and job.workers > most:
        text = f"{most} is less than the {job.workers} of `workers`"
        yield _of(("elastic", "maxReplicas"), text, "workers")
    if job.master is not None:
        yield _of(("master",), "an elastic job has no Master, only Workers", "elastic")


def _threads(job: TrainingJob) -> Iterator[Contradiction]:
    value = job.env.get(THREADS)
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"0*[1-9]\d*", value)):
        said = quote(value) if isinstance(value, str) else "a Secret's value"
        yield _of(("env", THREADS), f"{said} is not allowed; it takes a whole number of at least 1")


def _gpus(job: TrainingJob) -> Iterator[Contradiction]:
    if job.backend != "nccl":
        return
    text = "nccl needs a GPU for each process, and `processesPerNode` is {}"
    for path, gpus in (
        (("gpus",), job.gpus),
        (("master", "gpus"), None if job.master is None else job.master.gpus),
    ):
        if gpus is not None and gpus < job.processes_per_node:
            told = f"{gpus} is too few: {text.format(job.processes_per_node)}"
            yield _of(path, told, "backend", "processes_per_node")


def _tolerations(job: TrainingJob) -> Iterator[Contradiction]:
    for index, each in enumerate(job.tolerations):
        if each.operator == "Exists" and each.value is not None:
            text = "goes with the operator Equal; Exists takes any value"
            yield _of(("tolerations", index, "value"), text)
        if each.operator == "Equal" and each.key is None:
            text = "is missing; only the operator Exists goes without"
            yield _of(("tolerations", index, "key"), text)
        if each.toleration_seconds is not None and each.effect != "NoExecute":
            text = "goes with the effect NoExecute alone"
            yield _of(("tolerations", index, "tolerationSeconds"), text)


def _of(path: tuple[str | int, ...], text: str, *others: str) -> Contradiction:
    """Return a contradiction that rests on the first part of `path` and on other fields."""
    first, *rest = path
    top = to_camel(str(first))
    return Contradiction((top, *rest), text, frozenset({top, *map(to_camel, others)}))
