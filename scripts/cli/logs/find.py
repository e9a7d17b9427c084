"""Finds a job's logs where its cluster may have to be asked: it imports Kubernetes' client."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core.text import meant
from jobs.api import JobApi, Unreachable, said
from jobs.logs import archive
from jobs.logs.containers import Container
from jobs.logs.containers import containers as containers_of
from jobs.spec.names import run_of
from jobs.topology import Topology
from jobs.watch.replicas import Replica, is_replica
from scripts.cli.logs.target import NoLogs, Target, kept_topology, replicas_of
from scripts.cli.state import StackState

_PATIENCE_SECONDS = 5.0
"""How long a cluster that does not answer is asked, where there may be an archive."""
_ENDS = frozenset({"Succeeded", "Failed"})


def find(
    stack: str, state: StackState, job: str, rank: int | None, wanted: Collection[str] = ()
) -> Target:
    """Return the logs of a job's rank, or of all.

    Args:
        stack: Its name.
        state: Its state.
        job: The job's name.
        rank: None for all; in an elastic job the worker's number.
        wanted: The jobs that the stack's file asks for.

    Raises:
        NoLogs: there are none; it names what there is.
    """
    declared = state.jobs.get(job)
    kept = archive.of_job(stack, job).runs() if job else []
    namespace = state.namespace if declared is None else declared.namespace
    api = _connect(state.kubeconfig, namespace, job) if job else None
    there, trouble = _ask(api)
    topology = Topology.of(there) if there is not None else kept_topology(kept)
    if topology is None:
        raise NoLogs(_nothing(stack, state, job, trouble, wanted))
    run_id = None if there is None else run_of(there)
    if run_id is not None and run_id not in {run.id for run in kept}:
        kept = []  # Of an earlier run, which another machine has replaced.
    replicas = replicas_of(job, topology, rank)
    return Target(job, topology, kept, replicas, api=None if there is None else api, run_id=run_id)


def containers(target: Target, pods: Sequence[Mapping[str, Any]]) -> list[Container]:
    """Return the containers of the replicas that are to be shown, in their order."""
    known = [
        Replica(pod, target.topology)
        for pod in pods
        if is_replica(pod) and run_of(pod) == target.run_id
    ]
    chosen = sorted(
        (each for each in known if each.number in target.replicas),
        key=lambda each: (each.number, str(each.pod["metadata"].get("creationTimestamp"))),
    )
    return [each for replica in chosen for each in containers_of(replica)]


def has_ended(job: Mapping[str, Any] | None) -> bool:
    """Return whether a PyTorchJob is done or gone."""
    if job is None:
        return True
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each["type"] in _ENDS and each["status"] == "True" for each in conditions)


def _connect(kubeconfig: str | None, namespace: str | None, job: str) -> JobApi | None:
    if kubeconfig is None or namespace is None:
        return None
    try:
        return JobApi.connect(kubeconfig, namespace, job)
    except ConfigException:
        return None


def _ask(api: JobApi | None) -> tuple[Mapping[str, Any] | None, str]:
    """Return the PyTorchJob, None when it is not there; and what went wrong."""
    if api is None:
        return None, ""
    try:
        return api.patient(_PATIENCE_SECONDS).get(), ""
    except (ApiException, Unreachable) as error:
        return None, said(error)


def _nothing(stack: str, state: StackState, job: str, trouble: str, wanted: Collection[str]) -> str:
    """Return why there are no logs of a job, and what there is."""
    known = sorted({*state.jobs, *archive.jobs(stack), *_submitted(state), *wanted})
    listed = f"Jobs of {stack}: {', '.join(known)}." if known else f"{stack} has no jobs."
    if not job:
        return f"Say which job: JOB=NAME. {listed}"
    if job not in known:
        if state.kubeconfig is None:
            listed += f" Stack {stack} has no cluster; `make up STACK={stack}` makes one."
        return f"There is no job {job!r}.{meant(job, known)} {listed}"
    if trouble:
        return f"Job {job} has no logs on this machine, and its cluster does not answer: {trouble}"
    declared = state.jobs.get(job)
    if declared is None or declared.result is None:
        return f"Job {job} has not been submitted yet; `make results STACK={stack}` says more."
    return (
        f"Job {job} has no PyTorchJob any more, and no logs of it were kept on this machine: they "
        f"are where `make up` ran. `make results JOB={job} STACK={stack}` shows its result."
    )


def _submitted(state: StackState) -> list[str]:
    """Return the jobs that the cluster has; none when it does not answer."""
    api = _connect(state.kubeconfig, state.namespace, job="")
    try:
        return [] if api is None else api.patient(_PATIENCE_SECONDS).names()
    except (ApiException, Unreachable):
        return []
