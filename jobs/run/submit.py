"""Submits and removes a PyTorchJob, however often either was interrupted."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.manifests import MANAGED_BY, held
from core.wait import NotYet, until
from jobs.api.client import JobApi, Object, Unreachable
from jobs.api.lines import moment
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.pytorchjob import QUEUE_LABEL, Topology, has_ended, is_suspended, message_of, run_of
from jobs.model.submission import Submission
from jobs.observe.failures import on_lost_nodes
from jobs.run import retry
from jobs.run.patch import patch_in_place
from jobs.run.retry import Attempt

HASH_LABEL = "slipway.dev/spec-hash"
_GONE_SECONDS = 90.0  # it takes Kubernetes most of a minute to see that a node is lost
_POLL_SECONDS = 0.5
_AT_ONCE = 16


def submit(  # noqa: PLR0913  # what is submitted, and what of it may be there
    api: JobApi,
    submission: Submission,
    facts: Mapping[str, Any],
    context: Context,
    before: Sequence[Attempt] = (),
    *,
    takes_ended: bool = False,
) -> Object:
    """Return the live job of a submission: the one that runs or ran to success, or a new one.

    `facts` are what trains it. `before` has the attempts before this one. Where a process was
    killed between two attempts, the job that still exists lists them, and which run succeeded last.
    With `takes_ended` a job that has ended is taken up, too, if it is none of those attempts.

    Raises:
        ApiException: the API server or the operator's webhook refuses it.
        RuntimeError: a job of that name is not ours.
        TimeoutError: an old one does not go away.
    """
    # Before anything is removed: it raises where files are missing.
    digest, plain = submission.digest(), manifest(submission)
    # Readable, and short enough for a label.
    run_id = f"{api.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    for _ in range(3):
        existing = api.get()
        if existing is None:
            labels = {HASH_LABEL: digest, RUN_LABEL: run_id, retry.LABEL: str(len(before) + 1)}
            noted = retry.annotations(before, submission.succeeded)
            try:
                return api.create(
                    manifest(submission, facts=facts, labels=labels, annotations=noted)
                )
            except ApiException as error:
                if error.status != 409:
                    raise
                # Another process was quicker, or a first answer got lost: read the present one.
                continue
        _refuse_foreign(api, existing)
        pods = None if takes_ended else len(api.pods())
        if _adoptable(existing, digest, plain, pods):
            context.info(f"PyTorchJob {api.name} is there already: waiting for it")
            patch_in_place(api, existing, plain, removing=False)
            return existing
        if existing["metadata"]["labels"].get(HASH_LABEL) == digest:
            before = before or retry.earlier(existing)
        if submission.succeeded is None:
            submission = replace(submission, succeeded=retry.last_succeeded(existing))
        context.info(f"removing the PyTorchJob {api.name} of an earlier run")
        if before and has_ended(existing):
            # While its pods take their time to end, the job is what remembers its attempts.
            for pod in api.pods():
                api.delete_pod(pod["metadata"]["name"])
            _await_end(api, context, of_job=False)
        remove(api, context)
    raise RuntimeError(
        f"PyTorchJob {api.namespace}/{api.name} is created and deleted by another program as well; "
        "see who with `kubectl get pytorchjob --show-managed-fields --output yaml`"
    )


def remove(api: JobApi, context: Context) -> None:
    """Delete the job and wait until it and its pods are gone; nothing happens without one.

    Raises:
        TimeoutError: something of it is left after a minute and a half; with what holds it.
        InterruptedError: the user pressed Ctrl-C.
    """
    api.delete()
    _await_end(api, context)
    # Otherwise the row would go on showing that it waits.
    context.status("removed the previous PyTorchJob")


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
    what = f"the end of PyTorchJob {api.namespace}/{api.name}"

    def look() -> None:
        job = api.get() if of_job else None
        left = [] if job is None else [("PyTorchJob", job["metadata"])]
        left += (("Pod", pod["metadata"]) for pod in _pods_left(api))
        if left:
            raise NotYet("; ".join(held(kind, of) or f"{kind} {of['name']}" for kind, of in left))

    see = f"kubectl --namespace {api.namespace} describe"
    advice = f". See why with `{see}`; then run the same command again"
    until(look, _GONE_SECONDS, what, context, every=_POLL_SECONDS, explain=lambda: advice)


def _pods_left(api: JobApi) -> list[Object]:
    """Return what pods a job still has; those whose end a lost node can't report are given up."""
    pods, now = api.pods(), datetime.now(UTC)
    until = ((each, each["metadata"].get("deletionTimestamp")) for each in pods)
    if late := [pod for pod, end in until if end is not None and moment(end) < now]:
        with suppress(ApiException, Unreachable):  # not every account may see nodes
            for pod in on_lost_nodes(late, api.nodes()):
                api.delete_pod(pod["metadata"]["name"], at_once=True)
    return pods


def _refuse_foreign(api: JobApi, job: Object) -> None:
    if not MANAGED_BY.items() <= (job["metadata"].get("labels") or {}).items():
        raise RuntimeError(
            f"there is a PyTorchJob {api.namespace}/{api.name} that Slipway did not make. "
            f"Delete it (`kubectl --namespace {api.namespace} delete pytorchjob {api.name}`), "
            "or give this job another name"
        )


def _adoptable(job: Object, digest: str, wanted: Object, pods: int | None) -> bool:
    metadata = job["metadata"]
    if metadata.get("deletionTimestamp") or metadata["labels"].get(HASH_LABEL) != digest:
        return False
    queue, other = (each["metadata"]["labels"].get(QUEUE_LABEL) for each in (job, wanted))
    if other not in {None, queue} and is_suspended(job):
        # Nothing of it runs, and its queue may not even exist. Kueue itself may add a default one.
        return False
    if run_of(job) in {each.get("run_id") for each in retry.earlier(job)}:
        # It is one of the attempts that are over, although the operator, which judges by the
        # Master alone, may call it a success.
        return False
    if pods is None:
        return True
    if message_of(job, "Succeeded") is not None:
        # What its ranks returned is in their pods; without them it is lost.
        return pods >= Topology.of_object(job).replicas
    return not has_ended(job)
