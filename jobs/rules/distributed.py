"""Ranks that could not form a group: their backend, and what each of them downloads."""

import ast
import re

from core.problem import quote
from jobs.rules.rule import Finding, Findings, Rule, Surroundings
from jobs.spec import TrainingJob

_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
_MPI_LAUNCHERS = frozenset({"mpirun", "mpiexec", "orterun", "srun"})


def _nccl_without_gpus(job: TrainingJob, around: Surroundings) -> Findings:
    if job.backend == "nccl" and around.gpus_per_node == 0:
        yield Finding(
            ("backend",),
            '"nccl" needs GPUs, and this cluster has none',
            'remove the job, use "gloo", or let the cluster have some: `gpu` of the kinds aks and '
            "azure-stack, `gpus` of kubeconfig",
        )


def _mpi(job: TrainingJob, _: Surroundings) -> Findings:
    words = re.split(r"[\s/]+", " ".join(job.command or ()))
    if job.backend == "mpi" and not _MPI_LAUNCHERS & set(words):
        yield Finding(
            ("backend",),
            '"mpi" takes rank and world size from mpirun, which neither a PyTorchJob nor the '
            "trainer's image has, so that each process would train alone in a world of one",
            'use "gloo", or an image of your own whose `command` is mpirun',
        )


def _gloo_interface(job: TrainingJob, _: Surroundings) -> Findings:
    value = job.env.get(_GLOO_INTERFACE)
    if isinstance(value, str) and ("^" in value or value.startswith("=")):
        yield Finding(
            ("env", _GLOO_INTERFACE),
            f"{quote(value)} is NCCL's syntax: Gloo takes names of interfaces and would look for "
            f"one that is called {quote(value.split(',')[0])}",
            "name it, such as eth0, or leave the variable out",
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
        if keyword.arg == "download"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
    )


_TORCH = "https://docs.pytorch.org/docs/2.6/distributed.html"
RULES = (
    Rule("nccl-without-gpus", f"{_TORCH}#which-backend-to-use", _nccl_without_gpus),
    Rule("mpi", f"{_TORCH}#backends", _mpi),
    Rule("gloo-interface", f"{_TORCH}#choosing-the-network-interface-to-use", _gloo_interface),
    Rule(
        "downloads-in-every-rank",
        "https://docs.pytorch.org/vision/0.21/generated/torchvision.datasets.CIFAR10.html",
        _downloads_in_every_rank,
        warns=True,
    ),
)
