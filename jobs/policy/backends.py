"""Backends of torch.distributed on machines that they do not work on."""

import re
from collections.abc import Iterator

from core.text import quote
from jobs.policy.rule import Case, Finding, Rule

_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
_MPI_LAUNCHERS = frozenset({"mpirun", "mpiexec", "orterun", "srun"})


def _nccl_without_gpus(case: Case) -> Iterator[Finding]:
    if case.job.backend == "nccl" and case.gpus_per_node == 0:
        yield Finding(
            ("backend",),
            '"nccl" needs GPUs, and this cluster has none',
            'remove the job, use "gloo", or let the cluster have some: `gpu` of the kinds aks and '
            "azure-stack, `gpus` of kubeconfig",
        )


def _mpi(case: Case) -> Iterator[Finding]:
    words = re.split(r"[\s/]+", " ".join(case.job.command or ()))
    if case.job.backend == "mpi" and not _MPI_LAUNCHERS & set(words):
        yield Finding(
            ("backend",),
            '"mpi" takes rank and world size from mpirun, which neither a PyTorchJob nor the '
            "trainer's image has, so that each process would train alone in a world of one",
            'use "gloo", or an image of your own whose `command` is mpirun',
        )


def _gloo_interface(case: Case) -> Iterator[Finding]:
    value = case.job.env.get(_GLOO_INTERFACE)
    if isinstance(value, str) and ("^" in value or value.startswith("=")):
        yield Finding(
            ("env", _GLOO_INTERFACE),
            f"{quote(value)} is NCCL's syntax: Gloo takes names of interfaces and would look for "
            f"one that is called {quote(value.split(',')[0])}",
            "name it, such as eth0, or leave the variable out",
        )


NCCL_WITHOUT_GPUS = Rule(
    "nccl-without-gpus",
    "https://docs.pytorch.org/docs/2.6/distributed.html#which-backend-to-use",
    _nccl_without_gpus,
)
MPI = Rule("mpi", "https://docs.pytorch.org/docs/2.6/distributed.html#backends", _mpi)
GLOO_INTERFACE = Rule(
    "gloo-interface",
    "https://docs.pytorch.org/docs/2.6/distributed.html#choosing-the-network-interface-to-use",
    _gloo_interface,
)
