"""Rules for ranks that could not form a group, or could not continue after losing a rank."""

import re

from core.problem import quote
from jobs.model.job import TrainingJob
from jobs.model.parts import MODULES
from jobs.model.program import RANK_PLACEHOLDER
from jobs.rules.rule import NO_GPUS_REMEDY, Finding, Findings, Surroundings, rule

_TORCH = "https://docs.pytorch.org/docs/2.14/distributed.html"
_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
_SIGNS = re.compile(
    r"torchrun|torch\.distributed\.(run|launch)"
    # Other members, such as the decorator `record`, do not form a group.
    r"|torch\.distributed\.elastic(\.| import )(agent|rendezvous)"
    r"|slipway_trainer(\.| import )elastic"
)
"""Matches the code or command line of a program that supports a new rendezvous."""


@rule(f"{_TORCH}#which-backend-to-use")
def _nccl_without_gpus(job: TrainingJob, around: Surroundings) -> Findings:
    if job.backend == "nccl" and around.gpus_per_node == 0:
        yield Finding(
            ("backend",),
            '"nccl" needs GPUs, but this cluster has none',
            f'remove the job, use "gloo", or {NO_GPUS_REMEDY}',
        )


@rule(f"{_TORCH}#choosing-the-network-interface-to-use")
def _gloo_interface(job: TrainingJob, _: Surroundings) -> Findings:
    value = job.env.get(_GLOO_INTERFACE)
    if isinstance(value, str) and ("^" in value or value.startswith("=")):
        yield Finding(
            ("env", _GLOO_INTERFACE),
            f"{quote(value)} is NCCL syntax: Gloo takes interface names and would look for one "
            f"called {quote(value.split(',')[0])}",
            "set the interface's name, such as eth0, or remove the variable",
        )


@rule("https://docs.pytorch.org/docs/2.14/elastic/run.html")
def _elastic_without_rendezvous(job: TrainingJob, around: Surroundings) -> Findings:
    if job.elastic is None:
        return
    if job.module is not None:
        if not MODULES[job.module].is_elastic:
            able = ", ".join(name for name, each in MODULES.items() if each.is_elastic)
            reason = f"the program {job.module} exits when a replica is lost"
            yield Finding(("elastic",), reason, f"use a program that continues: {able}")
        return
    texts = "\n".join((*(job.command or ()), *job.args, *around.files.values()))
    if job.image is None and _SIGNS.search(texts) is None:
        yield Finding(
            ("elastic",),
            "needs a program that forms a new group when a replica is lost, but neither torchrun "
            "nor slipway_trainer.elastic appears in its command or files, so each replica would "
            "train on its own",
            "use one of them, or remove `elastic`",
        )


@rule("docs/resources.md#elastic")
def _elastic_with_processes(job: TrainingJob, _: Surroundings) -> Findings:
    is_launched = job.module is not None or (job.script is not None and job.command is None)
    if job.elastic is not None and job.processes_per_node > 1 and is_launched:
        yield Finding(
            ("processesPerNode",),
            f"{job.processes_per_node} can't be combined with `elastic`: replicas are lost and "
            "replaced as a whole, one process each",
            "use more `workers` instead",
        )


@rule("docs/own-job.md#placeholders")
def _rank_unknown(job: TrainingJob, _: Surroundings) -> Findings:
    if job.elastic is not None:
        reason = "an elastic job's ranks change, and the rendezvous assigns them"
    elif job.processes_per_node > 1:
        reason = (
            "with several `processesPerNode`, each process has its own rank, in the variable RANK"
        )
    else:
        return
    for name, words in (("command", job.command or ()), ("args", job.args)):
        for index, word in enumerate(words):
            if RANK_PLACEHOLDER in word:
                text = f"{RANK_PLACEHOLDER} can't be known: {reason}"
                yield Finding(
                    (name, index), text, "remove it, and have the program get its rank when it runs"
                )
