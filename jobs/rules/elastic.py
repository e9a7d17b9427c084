"""Elastic jobs that could not go on when a replica is lost."""

from jobs.rules.rule import Finding, Findings, Rule, Surroundings
from jobs.spec import TrainingJob
from jobs.spec.modules import MODULES
from jobs.spec.program import RANK_PLACEHOLDER

_SIGNS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "slipway_trainer.elastic",
    "slipway_trainer import elastic",
)
"""What a program that meets the others again has in it, or in its command line."""


def _no_rendezvous(job: TrainingJob, around: Surroundings) -> Findings:
    if job.elastic is None:
        return
    if job.module is not None:
        if not MODULES[job.module].is_elastic:
            able = ", ".join(name for name, each in MODULES.items() if each.is_elastic)
            reason = f"the program {job.module} ends when a replica is lost"
            yield Finding(("elastic",), reason, f"use one that goes on: {able}")
        return
    if job.image is None and not _has_sign(job, around):
        yield Finding(
            ("elastic",),
            "needs a program that meets the others again when a replica is lost, and neither "
            "torchrun nor slipway_trainer.elastic is in its command or files, so each replica "
            "would train alone",
            "use one of them, or leave `elastic` out",
        )


def _program_unseen(job: TrainingJob, around: Surroundings) -> Findings:
    if job.elastic is not None and job.image is not None and not _has_sign(job, around):
        yield Finding(
            ("elastic",),
            "needs a program that meets the others again when a replica is lost, as with torchrun "
            "or slipway_trainer.elastic: neither is in its command, and what the image holds can't "
            "be seen from here",
            "make sure that its program does; otherwise each replica trains alone",
        )


def _has_sign(job: TrainingJob, around: Surroundings) -> bool:
    seen = "\n".join((*(job.command or ()), *job.args, *around.files.values()))
    return any(sign in seen for sign in _SIGNS)


def _two_worlds(job: TrainingJob, _: Surroundings) -> Findings:
    elastic, workers = job.elastic, job.workers
    if elastic is not None and 2 * elastic.least(workers) <= elastic.most(workers):
        yield Finding(
            ("elastic", "minReplicas"),
            f"{elastic.least(workers)} of {elastic.most(workers)}: where the network splits, both "
            "parts go on, and what the smaller one trained is thrown away",
            f"use at least {elastic.most(workers) // 2 + 1}, or leave it out",
        )


def _several_processes(job: TrainingJob, _: Surroundings) -> Findings:
    is_launched = job.module is not None or job.script is not None
    if job.elastic is not None and job.processes_per_node > 1 and is_launched:
        yield Finding(
            ("processesPerNode",),
            f"{job.processes_per_node} does not go with `elastic`: replicas are lost and replaced "
            "whole, one process each",
            "use more `workers` instead",
        )


def _no_rank(job: TrainingJob, _: Surroundings) -> Findings:
    reason = None
    if job.elastic is not None:
        reason = "an elastic job's ranks change, and the rendezvous hands them out"
    elif job.processes_per_node > 1:
        reason = "with several `processesPerNode` each has its own, in the variable RANK"
    if reason is not None:
        for name, words in (("command", job.command or ()), ("args", job.args)):
            for index, word in enumerate(words):
                if RANK_PLACEHOLDER in word:
                    yield Finding(
                        (name, index),
                        f"{RANK_PLACEHOLDER} can't be known: {reason}",
                        "leave it out, and let the program ask there",
                    )


_TORCHRUN = "https://docs.pytorch.org/docs/2.6/elastic/run.html"
RULES = (
    Rule("elastic-without-rendezvous", _TORCHRUN, _no_rendezvous),
    Rule("elastic-program-unseen", _TORCHRUN, _program_unseen, warns=True),
    Rule("elastic-minority", "docs/elastic.md#limits", _two_worlds, warns=True),
    Rule("elastic-with-processes", "docs/resources.md#elastic", _several_processes),
    Rule("rank-unknown", "docs/own-job.md#placeholders", _no_rank),
)
