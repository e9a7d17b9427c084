"""`make logs JOB=… RANK=…`: what a job's ranks have printed, also while they run."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra import toolchain
from jobs.topology import processes_in, ranks_of
from scripts.environment import applied
from scripts.stack.backend import exists
from scripts.stack.cli import Cli, rows

_JOB = "training.kubeflow.org/job-name"
_INDEX = "training.kubeflow.org/replica-index"
_CONTAINER = "pytorch"
_LIMIT = 60  # seconds for a query


class NoLogs(Exception):
    """There is nothing to show; the text says what there is."""


@dataclass(frozen=True)
class Pod:
    """The pod of one replica, and which ranks run in it."""

    namespace: str
    name: str
    job: str
    ranks: range

    @classmethod
    def of(cls, document: Any) -> "Pod":
        """From what the API server says of it: the operator puts its place into its environment.

        The replicas of an elastic job have no fixed rank; there it is the Worker's index.
        """
        metadata = document["metadata"]
        labels: Mapping[str, str] = metadata["labels"]
        containers = document["spec"]["containers"]
        container = next(each for each in containers if each["name"] == _CONTAINER)
        variables = {each["name"]: each.get("value") for each in container.get("env", [])}
        replica = int(variables.get("PET_NODE_RANK", labels[_INDEX]))
        processes = processes_in(variables.get("PET_NPROC_PER_NODE", "1"))
        ranks = ranks_of(replica, processes)
        return cls(metadata["namespace"], metadata["name"], labels[_JOB], ranks)


def show(cli: Cli, job: str, rank: int | None) -> int:
    """Prints the logs of one rank, or of all, one after the other.

    Args:
        cli: Bound to the stack.
        job: The job's name.
        rank: None for all.

    Returns:
        kubectl's exit status, the worst of several.

    Raises:
        NoLogs: the stack has no cluster, or no pods of that job and rank.
        PulumiFailed: the stack's state can't be read.
    """
    kubeconfig = None
    if exists(cli.stack):
        kubeconfig = kubeconfig_of(json.loads(cli.ask("stack", "export", "--show-secrets")))
    if kubeconfig is None:
        raise NoLogs(f"Stack {cli.stack} has no cluster; `make up STACK={cli.stack}` makes one.")
    with tempfile.NamedTemporaryFile("w", prefix="kubeconfig-") as file:  # made with mode 0600
        file.write(kubeconfig)
        file.flush()
        kubectl = [str(toolchain.path("kubectl")), "--kubeconfig", file.name]
        pods = chosen(_pods(kubectl), job, rank)
        return max(_print(kubectl, pod, heading=len(pods) > 1) for pod in pods)


def kubeconfig_of(deployment: Any) -> str | None:
    """The kubeconfig in an exported state with plain secrets.

    Taken from the cluster's resource, since the stack's outputs appear only when `up` has ended.
    """
    for resource in rows((deployment.get("deployment") or {}).get("resources")):
        value = resource.get("outputs", {}).get("kubeconfig")
        if isinstance(value, dict) and "plaintext" in value:
            value = json.loads(value["plaintext"])
        if isinstance(value, str):
            return value
    return None


def chosen(pods: list[Pod], job: str, rank: int | None) -> list[Pod]:
    """The pods of a job's rank, or of all its ranks, in their order.

    Raises:
        NoLogs: there are none; it names the jobs or ranks that there are.
    """
    of_job = sorted((pod for pod in pods if pod.job == job), key=lambda pod: pod.ranks.start)
    if not of_job:
        names = ", ".join(sorted({pod.job for pod in pods})) or "none"
        asked = f"There are no pods of a job {job!r}" if job else "Say which job: JOB=NAME"
        raise NoLogs(f"{asked}. Jobs with pods: {names}.")
    of_rank = [pod for pod in of_job if rank is None or rank in pod.ranks]
    if not of_rank:
        there = ", ".join(str(each) for pod in of_job for each in pod.ranks)
        raise NoLogs(f"Job {job} has no pod of rank {rank}. There are ranks {there}.")
    return of_rank


def _pods(kubectl: list[str]) -> list[Pod]:
    finished = subprocess.run(
        [*kubectl, "get", "pods", "--all-namespaces", "--selector", _JOB, "--output", "json"],
        env=applied(os.environ),
        stdout=subprocess.PIPE,
        timeout=_LIMIT,
        check=True,
    )
    return [Pod.of(document) for document in json.loads(finished.stdout)["items"]]


def _print(kubectl: list[str], pod: Pod, *, heading: bool) -> int:
    if heading:
        ranks = ", ".join(map(str, pod.ranks))
        print(f"--- rank {ranks} ({pod.name})", flush=True)
    command = [*kubectl, "logs", "--namespace", pod.namespace, pod.name, "--container", _CONTAINER]
    return subprocess.run(command, env=applied(os.environ), timeout=_LIMIT, check=False).returncode
