"""Rules for ranks that could not form a group, or not continue after a loss."""

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
    # Other members, such as the decorator `record`, form no group.
    r"|torch\.distributed\.elastic(\.| import )(agent|rendezvous)"
    r"|slipway_trainer(\.| import )elastic"
)
"""Matches the code or command line of a program that supports a new rendezvous."""


@rule(f"{_TORCH}#which-backend-to-use")
def _nccl_without_gpus(job: TrainingJob, around: Surroundings) -> Findings:
    if job.backend == "nccl" and around.gpus_per_node == 0:
        yield Finding(
            ("backend",),
            '"nccl" needs GPUs, and this cluster has none',
            f'remove the job, use "gloo", or {NO_GPUS_REMEDY}',
        )


@rule(f"{_TORCH}#choosing-the-network-interface-to-use")
def _gloo_interface(job: TrainingJob, _: Surroundings) -> Findings:
    value = job.env.get(_GLOO_INTERFACE)
    if isinstance(value, str) and ("^" in value or value.startswith("=")):
        yield Finding(
            ("env", _GLOO_INTERFACE),
            f"{quote(value)} is NCCL's syntax: Gloo takes names of interfaces and would look for "
            f"one that is called {quote(value.split(',')[0])}",
            "name it, such as eth0, or leave the variable out",
        )


@rule("https://docs.pytorch.org/docs/2.14/elastic/run.html")
def _elastic_without_rendezvous(job: TrainingJob, around: Surroundings) -> Findings:
    if job.elastic is None:
        return
    if job.module is not None:
        if not MODULES[job.module].is_elastic:
            able = ", ".join(name for name, each in MODULES.items() if each.is_elastic)
            reason = f"the program {job.module} ends when a replica is lost"
            yield Finding(("elastic",), reason, f"use one that goes on: {able}")
        return
    texts = "\n".join((*(job.command or ()), *job.args, *around.files.values()))
    if job.image is None and _SIGNS.search(texts) is None:
        yield Finding(
            ("elastic",),
            "needs a program that meets the others again when a replica is lost, and neither "
            "torchrun nor slipway_trainer.elastic is in its command or files, so each replica "
            "would train alone",
            "use one of them, or leave `elastic` out",
        )


@rule("docs/resources.md#elastic")
def _elastic_with_processes(job: TrainingJob, _: Surroundings) -> Findings:
    is_launched = job.module is not None or (job.script is not None and job.command is None)
    if job.elastic is not None and job.processes_per_node > 1 and is_launched:
        yield Finding(
            ("processesPerNode",),
            f"{job.processes_per_node} does not go with `elastic`: replicas are lost and replaced "
            "whole, one process each",
            "use more `workers` instead",
        )


@rule("docs/own-job.md#placeholders")
def _rank_unknown(job: TrainingJob, _: Surroundings) -> Findings:
    if job.elastic is not None:
        reason = "an elastic job's ranks change, and the rendezvous hands them out"
    elif job.processes_per_node > 1:
        reason = "with several `processesPerNode` each has its own, in the variable RANK"
    else:
        return
    for name, words in (("command", job.command or ()), ("args", job.args)):
        for index, word in enumerate(words):
            if RANK_PLACEHOLDER in word:
                text = f"{RANK_PLACEHOLDER} can't be known: {reason}"
                yield Finding((name, index), text, "leave it out, and let the program ask there")
