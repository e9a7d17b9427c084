"""Fields of a job that do not go together, whatever the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from core.problem import Contradiction
from jobs.spec import amounts, mount_rules
from jobs.spec.contradiction import of
from jobs.spec.modules import HYPERPARAMETERS, MODULES

if TYPE_CHECKING:
    from jobs.spec.job import TrainingJob

_PROGRAMS = ("script", "build", "image")
_OWN = (*_PROGRAMS, "command", "script_entry")


def contradictions(job: TrainingJob) -> list[Contradiction]:
    """Return everything in `job` that does not go together."""
    rules = (
        *(_program, _command, _hyperparameters, _gate, _elastic, amounts.contradictions),
        *(mount_rules.contradictions, _tolerations, _outputs),
    )
    return [each for rule in rules for each in rule(job)]


def _program(job: TrainingJob) -> Iterator[Contradiction]:
    given = [name for name in _PROGRAMS if getattr(job, name) is not None]
    if job.module is not None:
        text = f"{job.name} runs the catalogue's program; give a job of one's own another name"
        for name in _OWN:
            if getattr(job, name) is not None:
                yield of((name,), text)
    elif not given and job.command is None:
        yield Contradiction((), NO_PROGRAM, frozenset(_OWN))
    for name in given[1:]:
        text = f"goes with no `{given[0]}`; a job has exactly one of script, build and image"
        yield of((name,), text, given[0])


NO_PROGRAM = "has nothing to run; a job has a `script`, a `build`, or an `image` and a `command`"


def _command(job: TrainingJob) -> Iterator[Contradiction]:
    if job.module is not None:
        return
    if job.command is not None and job.script is not None:
        yield of(("command",), "goes with no `script`, which python3 runs; it has `args`", "script")
    elif job.command is not None and job.image is None and job.build is None:
        yield of(("image",), "is missing; a `command` has an `image` or a `build`", "command")
    if job.image is not None and job.command is None:
        yield of(("command",), "is missing; an `image` has it", "image")
    if job.script_entry is not None and job.script is None:
        yield of(("script_entry",), "goes with a `script` that is a folder", "script")


def _hyperparameters(job: TrainingJob) -> Iterator[Contradiction]:
    if job.module is not None or all(getattr(job, name) is None for name in _OWN):
        return
    for name in HYPERPARAMETERS:
        if getattr(job, name) is not None:
            yield of((name,), "only the catalogue's programs take it; one's own has `args`")


def _gate(job: TrainingJob) -> Iterator[Contradiction]:
    if job.module is not None and job.max_time_to_accuracy is not None and job.goal is None:
        text = "goes with a `goal`, such as accuracy=0.98: the time until it was reached is judged"
        yield of(("max_time_to_accuracy",), text, "goal")


def _elastic(job: TrainingJob) -> Iterator[Contradiction]:
    if job.elastic is None:
        if job.module is not None and MODULES[job.module].is_elastic:
            yield of(("elastic",), f"is missing; {job.name} needs it", "module")
        return
    least, most = job.elastic.least(job.workers), job.elastic.max_replicas
    if job.workers < least:
        text = f"{least} is more than the {job.workers} of `workers`"
        yield of(("elastic", "minReplicas"), text, "workers")
    if most is not None and job.workers > most:
        text = f"{most} is less than the {job.workers} of `workers`"
        yield of(("elastic", "maxReplicas"), text, "workers")
    if job.master is not None:
        yield of(("master",), "an elastic job has no Master, only Workers", "elastic")


def _tolerations(job: TrainingJob) -> Iterator[Contradiction]:
    for index, each in enumerate(job.tolerations):
        if each.operator == "Exists" and each.value is not None:
            text = "goes with the operator Equal; Exists takes any value"
            yield of(("tolerations", index, "value"), text)
        if each.operator == "Equal" and each.key is None:
            text = "is missing; only the operator Exists goes without"
            yield of(("tolerations", index, "key"), text)
        if each.toleration_seconds is not None and each.effect != "NoExecute":
            text = "goes with the effect NoExecute alone"
            yield of(("tolerations", index, "tolerationSeconds"), text)


_SIGNATURES = frozenset({"sig", "signature", "x-amz-signature", "x-goog-signature"})


def _outputs(job: TrainingJob) -> Iterator[Contradiction]:
    if job.outputs is None:
        return
    url = urlsplit(job.outputs)
    signed = any(name.lower() in _SIGNATURES for name, _ in parse_qsl(url.query, True))
    if url.password is not None or signed:
        what = "a signature" if signed else "a password"
        yield of(
            ("outputs",),
            f"has {what} in it, which would stand in clear in the stack's state; leave it out, and "
            "give the store's client its own variable by `env`, from a Secret",
        )
