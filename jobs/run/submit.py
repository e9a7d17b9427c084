"""Submits and removes a PyTorchJob, however often either was interrupted."""

import copy
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.manifests import MANAGED_BY, held
from jobs.api import JobApi, Object, Unreachable
from jobs.judge.exits import moment
from jobs.judge.first_failure import on_lost_nodes
from jobs.run import changes, retry
from jobs.run.retry import Attempt
from jobs.spec.names import RUN_LABEL
from jobs.topology import Topology

HASH_LABEL = "slipway.dev/spec-hash"
_GONE_SECONDS = 90.0
"""It takes Kubernetes most of a minute to see that a node is lost."""
_POLL_SECONDS = 0.5
_AT_ONCE = 16


@dataclass(frozen=True)
class Submitted:
    """An existing job.

    Args:
        job: The PyTorchJob.
        age: Seconds since its creation; 0 for one that was created just now.
    """

    job: Object
    age: float


def spec_hash(manifest: Mapping[str, Any]) -> str:
    """Return a hash of all that can alter a run's result: its labels cannot, for example."""
    canonical = json.dumps(changes.decisive(manifest), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def submit(
    api: JobApi, manifest: Mapping[str, Any], context: Context, before: Sequence[Attempt] = ()
) -> Submitted:
    """Return the job of `manifest`: the one that runs or ran to success already, or a new one.

    Args:
        api: Of the job.
        manifest: What to submit.
        context: Where to show what is done.
        before: The attempts before this one. Where a process was killed between two attempts, the
            job that still exists lists them.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        RuntimeError: a job of that name is not ours, or an old one does not go away.
    """
    digest = spec_hash(manifest)
    run_id = _run_id(manifest)
    for _ in range(3):
        existing = api.get()
        if existing is None:
            labels = {HASH_LABEL: digest, RUN_LABEL: run_id, **retry.labels(before)}
            try:
                job = api.create(_marked(manifest, labels, retry.annotations(before)))
                return Submitted(job, age=0)
            except ApiException as error:
                if error.status != 409:
                    raise
                # Another process was quicker, or a first answer got lost: read the present one.
                continue
        _refuse_foreign(api, existing)
        if _adoptable(existing, digest, pods=len(api.pods())):
            context.info(f"PyTorchJob {api.name} is there already: waiting for it")
            changes.complete(api, existing, manifest)
            return Submitted(existing, api.age(existing))
        if existing["metadata"]["labels"].get(HASH_LABEL) == digest:
            before = before or retry.earlier(existing)
        context.info(f"removing the PyTorchJob {api.name} of an earlier run")
        if before and _conditions(existing) & {"Failed", "Succeeded"}:
            # While its pods take their time to end, the job is what remembers its attempts.
            _remove_pods(api, context)
        remove(api, context)
    raise RuntimeError(
        f"PyTorchJob {api.namespace}/{api.name} is created and deleted by another program as well; "
        "see who with `kubectl get pytorchjob --show-managed-fields --output yaml`"
    )


def _run_id(manifest: Mapping[str, Any]) -> str:
    """Return a name for this submission, readable, and short enough for a label."""
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{manifest['metadata']['name']}-{now}-{secrets.token_hex(2)}"


def _marked(
    manifest: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Object:
    """Return `manifest` with marks besides: the job's, and of its pods those that pods need."""
    marked = copy.deepcopy(dict(manifest))
    metadata = marked["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    if annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
    for replicas in marked["spec"]["pytorchReplicaSpecs"].values():
        metadata = replicas["template"].setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), RUN_LABEL: labels[RUN_LABEL]}
    return marked


def remove(api: JobApi, context: Context) -> None:
    """Delete the job and wait until it and its pods are gone; nothing happens without one.

    Raises:
        RuntimeError: something of it is left after a minute and a half; with what holds it.
    """
    api.delete()
    _await_end(api, context, lambda: _jobs_left(api) + _pods_left(api))
    context.status("what was there is gone")  # Otherwise the row would go on showing that it waits.


def stop_all(kubeconfig: str, namespace: str, context: Context) -> None:
    """Stop every training job in a namespace, before the operator that runs them is removed.

    An `up` that was killed may have left some that no resource knows of.

    Raises:
        RuntimeError: one is left after the limit of `remove`, or the
            cluster does not answer.
    """
    try:
        names = _names(kubeconfig, namespace)
    except Unreachable as error:
        if not kube.may_be_gone():
            raise RuntimeError(
                f"whether training jobs are left in {namespace} can't be told, the cluster does "
                f"not answer: {error}. {kube.IF_GONE}"
            ) from error
        return
    if names:
        context.info(f"stops what an interrupted run has left: {', '.join(names)}")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [JobApi.connect(kubeconfig, namespace, name) for name in names]
        for stopped in [pool.submit(remove, job, context) for job in jobs]:
            stopped.result()


def _names(kubeconfig: str, namespace: str) -> list[str]:
    # Without retries, which would only keep the user waiting for a cluster that is gone.
    api = JobApi.connect(kubeconfig, namespace, name="").retrying(0)
    try:
        return sorted(api.names())
    except ApiException as error:
        if error.status == 404:  # the CRD was never installed
            return []
        raise RuntimeError(
            f"the training jobs in {namespace}: {kube.api_message(error)}"
        ) from error


def _remove_pods(api: JobApi, context: Context) -> None:
    for pod in api.pods():
        api.delete_pod(pod["metadata"]["name"])
    _await_end(api, context, lambda: _pods_left(api))


@dataclass(frozen=True)
class _Left:
    """An object that is being deleted."""

    kind: str
    metadata: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.metadata['name']}"

    @property
    def story(self) -> str:
        """What holds it, and how to let it go."""
        return held(self.kind, self.metadata) or str(self)


def _await_end(api: JobApi, context: Context, left: Callable[[], list[_Left]]) -> None:
    deadline, shown = time.monotonic() + _GONE_SECONDS, ""
    while remaining := left():
        if time.monotonic() > deadline:
            listed = "".join(f"\n  {each.story}" for each in remaining)
            raise RuntimeError(
                f"PyTorchJob {api.namespace}/{api.name} was deleted, but after "
                f"{_GONE_SECONDS:g} s this is still there:{listed}\nSee why with `kubectl "
                f"--namespace {api.namespace} describe`; then run the same command again"
            )
        if (status := f"waiting for the end of {', '.join(map(str, remaining))}") != shown:
            context.status(status)
            shown = status
        time.sleep(_POLL_SECONDS)


def _jobs_left(api: JobApi) -> list[_Left]:
    job = api.get()
    return [] if job is None else [_Left("PyTorchJob", job["metadata"])]


def _pods_left(api: JobApi) -> list[_Left]:
    """Return the job's pods; those whose end a lost node can't report are given up."""
    pods, now = api.pods(), datetime.now(UTC)
    until = ((each, each["metadata"].get("deletionTimestamp")) for each in pods)
    if late := [pod for pod, end in until if end is not None and moment(end) < now]:
        with suppress(ApiException, Unreachable):  # not every account may see nodes
            for pod in on_lost_nodes(late, api.nodes()):
                api.forget_pod(pod["metadata"]["name"])
    return [_Left("Pod", pod["metadata"]) for pod in pods]


def _refuse_foreign(api: JobApi, job: Object) -> None:
    labels = job["metadata"].get("labels") or {}
    if not MANAGED_BY.items() <= labels.items():
        raise RuntimeError(
            f"there is a PyTorchJob {api.namespace}/{api.name} that Slipway did not make. "
            f"Delete it (`kubectl --namespace {api.namespace} delete pytorchjob {api.name}`), "
            "or give this job another name"
        )


def _adoptable(job: Object, digest: str, pods: int) -> bool:
    metadata = job["metadata"]
    if metadata.get("deletionTimestamp") or metadata["labels"].get(HASH_LABEL) != digest:
        return False
    if retry.is_closed(job):
        return False
    holding = _conditions(job)
    if "Succeeded" in holding:
        # What its ranks returned is in their pods; without them it is lost.
        return pods >= Topology.of(job).replicas
    return "Failed" not in holding


def _conditions(job: Object) -> set[str]:
    """Return the conditions that hold."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return {entry["type"] for entry in conditions if entry["status"] == "True"}
