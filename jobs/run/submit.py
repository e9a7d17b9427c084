"""Submits and removes a PyTorchJob, however often either was interrupted."""

import copy
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.manifests import MANAGED_BY, held, holds
from core.wait import NotYet, until
from jobs.api.client import JobApi, Object, Unreachable
from jobs.model.names import RUN_LABEL
from jobs.model.topology import Topology
from jobs.observe.exits import moment
from jobs.observe.failures import on_lost_nodes
from jobs.run import retry
from jobs.run.changes import bring, decisive
from jobs.run.retry import Attempt

HASH_LABEL = "slipway.dev/spec-hash"
_GONE_SECONDS = 90.0  # it takes Kubernetes most of a minute to see that a node is lost
_POLL_SECONDS = 0.5
_AT_ONCE = 16

_Left = tuple[str, Mapping[str, Any]]
"""The kind and the metadata of an object that is being deleted."""


def spec_hash(manifest: Mapping[str, Any]) -> str:
    """Return a hash of all that can alter a run's result: its labels cannot, for example."""
    canonical = json.dumps(decisive(manifest), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def submit(
    api: JobApi,
    manifest: Mapping[str, Any],
    context: Context,
    before: Sequence[Attempt] = (),
    *,
    completed: Callable[[Mapping[str, Any]], Object] = dict,
) -> Object:
    """Return the job of `manifest`: the one that runs or ran to success already, or a new one.

    `before` has the attempts before this one. Where a process was killed between two attempts, the
    job that still exists lists them. `completed` adds what can't alter the result to a new one.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        RuntimeError: a job of that name is not ours.
        TimeoutError: an old one does not go away.
    """
    digest = spec_hash(manifest)
    # Readable, and short enough for a label.
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    run_id = f"{api.name}-{now}-{secrets.token_hex(2)}"
    for _ in range(3):
        existing = api.get()
        if existing is None:
            labels = {HASH_LABEL: digest, RUN_LABEL: run_id, retry.LABEL: str(len(before) + 1)}
            try:
                marked = _marked(manifest, labels, retry.annotations(before))
                return api.create(completed(marked))
            except ApiException as error:
                if error.status != 409:
                    raise
                # Another process was quicker, or a first answer got lost: read the present one.
                continue
        _refuse_foreign(api, existing)
        if _adoptable(existing, digest, pods=len(api.pods())):
            context.info(f"PyTorchJob {api.name} is there already: waiting for it")
            bring(api, existing, manifest, removing=False)
            return existing
        if existing["metadata"]["labels"].get(HASH_LABEL) == digest:
            before = before or retry.earlier(existing)
        context.info(f"removing the PyTorchJob {api.name} of an earlier run")
        if before and (holds(existing, "Failed") or holds(existing, "Succeeded")):
            # While its pods take their time to end, the job is what remembers its attempts.
            for pod in api.pods():
                api.delete_pod(pod["metadata"]["name"])
            _await_end(api, context, of_job=False)
        remove(api, context)
    raise RuntimeError(
        f"PyTorchJob {api.namespace}/{api.name} is created and deleted by another program as well; "
        "see who with `kubectl get pytorchjob --show-managed-fields --output yaml`"
    )


def _marked(
    manifest: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Object:
    """Return `manifest` with marks besides: the job's, and of its pods those that pods need."""
    marked = copy.deepcopy(dict(manifest))
    marked["metadata"]["labels"].update(labels)
    marked["metadata"].setdefault("annotations", {}).update(annotations)
    for replicas in marked["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"]["metadata"]["labels"][RUN_LABEL] = labels[RUN_LABEL]
    return marked


def remove(api: JobApi, context: Context) -> None:
    """Delete the job and wait until it and its pods are gone; nothing happens without one.

    Raises:
        TimeoutError: something of it is left after a minute and a half; with what holds it.
        InterruptedError: the user pressed Ctrl-C.
    """
    api.delete()
    _await_end(api, context)
    context.status("what was there is gone")  # Otherwise the row would go on showing that it waits.


def stop_all(kubeconfig: str, namespace: str, context: Context) -> None:
    """Stop every training job in a namespace, before the operator that runs them is removed.

    An `up` that was killed may have left some that no resource knows of.

    Raises:
        TimeoutError: one is left after the limit of `remove`.
        RuntimeError: the cluster does not answer.
    """
    # Without retries, which would only keep the user waiting for a cluster that is gone.
    api = JobApi.connect(kubeconfig, namespace, name="").retrying(0)
    try:
        names = sorted(api.names())
    except Unreachable as error:
        if kube.may_be_gone():
            return
        raise RuntimeError(
            f"whether training jobs are left in {namespace} can't be told, the cluster does not "
            f"answer: {error}. {kube.IF_GONE}"
        ) from error
    except ApiException as error:
        raise RuntimeError(
            f"the training jobs in {namespace}: {kube.api_message(error)}"
        ) from error
    if names:
        context.info(f"stops what an interrupted run has left: {', '.join(names)}")
    jobs = [JobApi.connect(kubeconfig, namespace, name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for stopped in [pool.submit(remove, job, context) for job in jobs]:
            stopped.result()


def _await_end(api: JobApi, context: Context, *, of_job: bool = True) -> None:
    """Wait until the pods of a job are gone, and unless said otherwise the job itself."""
    job = f"PyTorchJob {api.namespace}/{api.name}"

    def look() -> None:
        if left := _left(api, with_job=of_job):
            raise NotYet("; ".join(held(kind, of) or f"{kind} {of['name']}" for kind, of in left))

    def overdue(left: str) -> str:
        return (
            f"{job} was deleted, but after {_GONE_SECONDS:g} s this is still there: {left}. See "
            f"why with `kubectl --namespace {api.namespace} describe`; then run the same command "
            "again"
        )

    until(look, _GONE_SECONDS, f"the end of {job}", context, every=_POLL_SECONDS, overdue=overdue)


def _left(api: JobApi, *, with_job: bool) -> list[_Left]:
    """Return what is left of a job; pods whose end a lost node can't report are given up."""
    job = api.get() if with_job else None
    jobs: list[_Left] = [] if job is None else [("PyTorchJob", job["metadata"])]
    pods, now = api.pods(), datetime.now(UTC)
    until = ((each, each["metadata"].get("deletionTimestamp")) for each in pods)
    if late := [pod for pod, end in until if end is not None and moment(end) < now]:
        with suppress(ApiException, Unreachable):  # not every account may see nodes
            for pod in on_lost_nodes(late, api.nodes()):
                api.delete_pod(pod["metadata"]["name"], at_once=True)
    return [*jobs, *(("Pod", pod["metadata"]) for pod in pods)]


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
    if holds(job, "Succeeded"):
        # What its ranks returned is in their pods; without them it is lost.
        return pods >= Topology.of(job).replicas
    return not holds(job, "Failed")
