"""`make logs JOB=… RANK=…`: what a job's ranks have printed, also while they run."""

import json
import os
import subprocess
import tempfile
from typing import Any

from infra import toolchain
from infra.tenancy import NAME as NAMESPACE
from scripts.environment import applied
from scripts.stack.cli import Cli, rows

_JOB = "training.kubeflow.org/job-name"
_LIMIT = 60  # seconds for a query


class NoLogs(Exception):
    """There is nothing to show; the text says what there is."""


def show(cli: Cli, job: str, rank: int | None) -> int:
    """Prints the logs of one rank, or of all, each line with its pod.

    Args:
        cli: Bound to the stack.
        job: The job's name.
        rank: 0 is the master.

    Returns:
        kubectl's exit status.

    Raises:
        NoLogs: the stack has no cluster, or no pods of that job and rank.
        PulumiFailed: the stack's state can't be read.
    """
    kubeconfig = kubeconfig_of(json.loads(cli.ask("stack", "export", "--show-secrets")))
    if kubeconfig is None:
        raise NoLogs(f"Stack {cli.stack} has no cluster; `make up STACK={cli.stack}` makes one.")
    with tempfile.NamedTemporaryFile("w", prefix="kubeconfig-") as file:  # made with mode 0600
        file.write(kubeconfig)
        file.flush()
        kubectl = [str(toolchain.path("kubectl")), "--kubeconfig", file.name, "-n", NAMESPACE]
        _require_pods(kubectl, job, rank)
        command = [*kubectl, "logs", "--selector", selector(job, rank), "--container", "pytorch"]
        command += ["--tail=-1", "--max-log-requests=64"]
        if rank is None:
            command.append("--prefix")
        return subprocess.run(command, env=applied(os.environ), check=False).returncode


def kubeconfig_of(deployment: Any) -> str | None:
    """The kubeconfig in an exported state with plain secrets: the cluster's, or the stack's own.

    Taken from the resource, since the stack's outputs appear only when its first `up` has ended.
    """
    for resource in rows((deployment.get("deployment") or {}).get("resources")):
        value = resource.get("outputs", {}).get("kubeconfig")
        if isinstance(value, dict) and "plaintext" in value:
            value = json.loads(value["plaintext"])
        if isinstance(value, str):
            return value
    return None


def selector(job: str, rank: int | None) -> str:
    """The labels of a job's pods, or of the one pod of a rank: rank 1 is the first worker."""
    if rank is None:
        return f"{_JOB}={job}"
    role, index = ("master", 0) if rank == 0 else ("worker", rank - 1)
    return (
        f"{_JOB}={job},training.kubeflow.org/replica-type={role},"
        f"training.kubeflow.org/replica-index={index}"
    )


def _require_pods(kubectl: list[str], job: str, rank: int | None) -> None:
    finished = subprocess.run(
        [*kubectl, "get", "pods", "--output", "json"],
        env=applied(os.environ),
        stdout=subprocess.PIPE,
        text=True,
        timeout=_LIMIT,
        check=True,
    )
    labels = [pod["metadata"].get("labels", {}) for pod in json.loads(finished.stdout)["items"]]
    wanted = dict(pair.split("=") for pair in selector(job, rank).split(","))
    if any(wanted.items() <= label.items() for label in labels):
        return
    ranks = sum(label.get(_JOB) == job for label in labels)
    if ranks:
        raise NoLogs(f"Job {job} has no rank {rank}; it has ranks 0 to {ranks - 1}.")
    jobs = sorted({label[_JOB] for label in labels if _JOB in label})
    raise NoLogs(f"There are no pods of a job {job!r}. There are: {', '.join(jobs) or 'none'}.")
