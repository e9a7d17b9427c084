"""Ranks that could not form a group, or not go on when one is lost; what each downloads."""

import ast
import re

from core.problem import quote
from jobs.rules.rule import Finding, Findings, Surroundings, rule
from jobs.spec import TrainingJob
from jobs.spec.program import MODULES, RANK_PLACEHOLDER

_TORCH = "https://docs.pytorch.org/docs/2.6/distributed.html"
_TORCHRUN = "https://docs.pytorch.org/docs/2.6/elastic/run.html"
_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
_MPI_LAUNCHERS = frozenset({"mpirun", "mpiexec", "orterun", "srun"})
_SIGNS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "slipway_trainer.elastic",
    "slipway_trainer import elastic",
)
"""What a program that meets the others again has in it, or in its command line."""


@rule(f"{_TORCH}#which-backend-to-use")
def _nccl_without_gpus(job: TrainingJob, around: Surroundings) -> Findings:
    if job.backend == "nccl" and around.gpus_per_node == 0:
        yield Finding(
            ("backend",),
            '"nccl" needs GPUs, and this cluster has none',
            'remove the job, use "gloo", or let the cluster have some: `gpu` of the kinds aks and '
            "azure-stack, `gpus` of kubeconfig",
        )


@rule(f"{_TORCH}#backends")
def _mpi(job: TrainingJob, _: Surroundings) -> Findings:
    words = re.split(r"[\s/]+", " ".join(job.command or ()))
    if job.backend == "mpi" and not _MPI_LAUNCHERS & set(words):
        yield Finding(
            ("backend",),
            '"mpi" takes rank and world size from mpirun, which neither a PyTorchJob nor the '
            "trainer's image has, so that each process would train alone in a world of one",
            'use "gloo", or an image of your own whose `command` is mpirun',
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


@rule(
    "https://docs.pytorch.org/vision/0.21/generated/torchvision.datasets.CIFAR10.html", warns=True
)
def _downloads_in_every_rank(job: TrainingJob, around: Surroundings) -> Findings:
    if job.script is None or job.world_size == 1:
        return
    places = [f"{path}:{line}" for path, text in around.files.items() for line in _downloads(text)]
    if places:
        yield Finding(
            ("script",),
            f"downloads data in each of its {job.world_size} ranks ({', '.join(places)}): they "
            "overwrite each other's files where they share a directory",
            "where the files are there already, as /data/mnist and /data/cifar10 in the trainer's "
            "image, nothing is fetched; otherwise let one rank do it, or put the data into a "
            "volume or an image",
        )


def _downloads(text: str) -> list[int]:
    """Return the lines of calls with `download=True`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []  # It is for another Python, or the run will fail.
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "download" and ast.unparse(keyword.value) == "True"
    )


@rule(_TORCHRUN)
def _elastic_without_rendezvous(job: TrainingJob, around: Surroundings) -> Findings:
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


@rule(_TORCHRUN, warns=True)
def _elastic_program_unseen(job: TrainingJob, around: Surroundings) -> Findings:
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


@rule("docs/elastic.md#limits", warns=True)
def _elastic_minority(job: TrainingJob, _: Surroundings) -> Findings:
    elastic, workers = job.elastic, job.workers
    if elastic is not None and 2 * elastic.least(workers) <= elastic.most(workers):
        yield Finding(
            ("elastic", "minReplicas"),
            f"{elastic.least(workers)} of {elastic.most(workers)}: where the network splits, both "
            "parts go on, and what the smaller one trained is thrown away",
            f"use at least {elastic.most(workers) // 2 + 1}, or leave it out",
        )


@rule("docs/resources.md#elastic")
def _elastic_with_processes(job: TrainingJob, _: Surroundings) -> Findings:
    is_launched = job.module is not None or job.script is not None
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
