"""Submit and delete a PyTorchJob, even if an earlier process was interrupted while doing so."""

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
from core.manifests import MANAGED_BY, condition, held
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
_GONE_SECONDS = 90.0  # Kubernetes takes most of a minute to detect a lost node
_POLL_SECONDS = 0.5
_AT_ONCE = 16


def submit(  # noqa: PLR0913  # the submission, and what exists already
    api: JobApi,
    submission: Submission,
    facts: Mapping[str, Any],
    context: Context,
    before: Sequence[Attempt] = (),
    *,
    takes_ended: bool = False,
) -> Object:
    """Return the live job for a submission: one that is running or has succeeded, or a new one.

    `facts` is the run's provenance. `before` lists the earlier attempts; if a process was killed
    between two attempts, they are read from the existing job, as is the last run that succeeded. If
    `takes_ended` is set, a job that has ended is adopted, too, unless it is one of these attempts.

    Raises:
        ApiException: the API server or the operator's webhook refused the job.
        RuntimeError: a job with that name exists, but Slipway did not create it.
        TimeoutError: an old job was not deleted in time.
    """
    # This raises if files are missing, so it comes before anything is removed.
    digest, plain, declared = submission.digest(), manifest(submission), submission.job
    # Readable, and short enough for a label.
    run_id = f"{api.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    for _ in range(3):
        existing = api.get()
        if existing is None:
            labels = {HASH_LABEL: digest, RUN_LABEL: run_id, retry.LABEL: str(len(before) + 1)}
            noted = retry.annotations(before, submission.succeeded)
            # Only the first attempt is drilled.
            new = replace(submission, job=replace(declared, drill=None) if before else declared)
            try:
                return api.create(manifest(new, facts=facts, labels=labels, annotations=noted))
            except ApiException as error:
                if error.status != 409:
                    raise
                # Another process was first, or a response was lost: read the existing job.
                continue
        _refuse_foreign(api, existing)
        pods = None if takes_ended else len(api.pods())
        if _adoptable(existing, digest, plain, pods):
            context.info(f"PyTorchJob {api.name} already exists: waiting for it")
            patch_in_place(api, existing, plain, removing=False)
            return existing
        if existing["metadata"]["labels"].get(HASH_LABEL) == digest:
            before = before or retry.earlier(existing)
        if submission.succeeded is None:
            submission = replace(submission, succeeded=retry.last_succeeded(existing))
        context.info(f"removing PyTorchJob {api.name} from an earlier run")
        if before and has_ended(existing):
            # Delete the pods first, because the job records its attempts until they have ended.
            for pod in api.pods():
                api.delete_pod(pod["metadata"]["name"])
            _await_end(api, context, of_job=False)
        remove(api, context)
    raise RuntimeError(
        f"PyTorchJob {api.namespace}/{api.name} is also created and deleted by another program; to "
        "identify it, run `kubectl get pytorchjob --show-managed-fields --output yaml`"
    )


def remove(api: JobApi, context: Context) -> None:
    """Delete the job and wait until it and its pods are gone; do nothing if it does not exist.

    Raises:
        TimeoutError: an object is left after 90 seconds; the message says what blocks it.
        InterruptedError: the user pressed Ctrl-C.
    """
    api.delete()
    _await_end(api, context)
    # Otherwise the row would still show the wait.
    context.status("removed the previous PyTorchJob")


def stop_all(kubeconfig: str, namespace: str, context: Context) -> None:
    """Stop every training job in a namespace before the operator is removed.

    A killed `up` may have left jobs that are not in any resource's state.

    Raises:
        TimeoutError: a job still exists after the time limit in `remove`.
        RuntimeError: the cluster is not responding, or refused the request.
    """
    # Without retries, since the cluster may no longer exist.
    api = JobApi.connect(kubeconfig, namespace, name="").retrying(0)
    try:
        names = sorted(api.names())
    except Unreachable as error:
        if kube.may_be_gone():
            return
        raise RuntimeError(
            f"training jobs may be left in {namespace}: the cluster is not responding: {error}. "
            f"{kube.IF_GONE}"
        ) from error
    except ApiException as error:
        raise RuntimeError(
            f"can't list the training jobs in {namespace}: {kube.api_message(error)}"
        ) from error
    if names:
        context.info(f"stopping what an interrupted run left behind: {', '.join(names)}")
    jobs = [JobApi.connect(kubeconfig, namespace, name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for stopped in [pool.submit(remove, job, context) for job in jobs]:
            stopped.result()


def _await_end(api: JobApi, context: Context, *, of_job: bool = True) -> None:
    """Wait until a job's pods are deleted and, if `of_job` is set, the job itself."""
    what = f"the deletion of PyTorchJob {api.namespace}/{api.name}"

    def look() -> None:
        job = api.get() if of_job else None
        left = [] if job is None else [("PyTorchJob", job["metadata"])]
        force_lost(api, pods := api.pods())
        left += (("Pod", pod["metadata"]) for pod in pods)
        if left:
            raise NotYet("; ".join(held(kind, of) or f"{kind} {of['name']}" for kind, of in left))

    see = f"kubectl --namespace {api.namespace} describe pytorchjobs,pods"
    advice = f". To see why, run `{see}`; then run the same command again"
    until(look, _GONE_SECONDS, what, context, every=_POLL_SECONDS, explain=lambda: advice)


def force_lost(api: JobApi, pods: Sequence[Object]) -> None:
    """Force the deletion of those `pods` that should be gone but are on lost nodes."""
    now = datetime.now(UTC)
    ends = ((each, each["metadata"].get("deletionTimestamp")) for each in pods)
    if late := [pod for pod, end in ends if end is not None and moment(end) < now]:
        reasons = ((pod, condition(pod, "DisruptionTarget").get("reason")) for pod in late)
        lost: Sequence[Mapping[str, Any]] = [
            pod for pod, reason in reasons if reason == "DeletionByTaintManager"
        ]
        with suppress(ApiException, Unreachable):
            with suppress(ApiException):  # not every account, such as a waiter's, may read nodes
                lost = on_lost_nodes(late, api.nodes())
            for pod in lost:
                api.delete_pod(pod["metadata"]["name"], at_once=True)


def _refuse_foreign(api: JobApi, job: Object) -> None:
    if not MANAGED_BY.items() <= (job["metadata"].get("labels") or {}).items():
        raise RuntimeError(
            f"PyTorchJob {api.namespace}/{api.name} exists, but Slipway did not create it. "
            f"Delete it (`kubectl --namespace {api.namespace} delete pytorchjob {api.name}`), "
            "or rename this job"
        )


def _adoptable(job: Object, digest: str, desired: Object, pods: int | None) -> bool:
    metadata = job["metadata"]
    if metadata.get("deletionTimestamp") or metadata["labels"].get(HASH_LABEL) != digest:
        return False
    queue, other = (each["metadata"]["labels"].get(QUEUE_LABEL) for each in (job, desired))
    if other not in {None, queue} and is_suspended(job):
        # None of its pods is running, and its queue may not exist. Kueue may add a default queue.
        return False
    if run_of(job) in {each.get("run_id") for each in retry.earlier(job)}:
        # It is a recorded attempt that failed, although the operator, which looks only at the
        # Master, may call it a success.
        return False
    if pods is None:
        return True
    if message_of(job, "Succeeded") is not None:
        # The ranks' reports are in their pods, and are lost with them.
        return pods >= Topology.of_object(job).replicas
    return not has_ended(job)
