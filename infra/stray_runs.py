"""Runs that no resource knows of: an `up` that was killed had begun them."""

from concurrent.futures import ThreadPoolExecutor

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from jobs.api import JobApi, Unreachable
from jobs.life.submit import remove

_AT_ONCE = 16


def stop(kubeconfig: str, namespace: str, context: Context) -> None:
    """Stop every training job in a namespace, before what runs them goes away.

    Raises:
        RuntimeError: one is still there after the limit of `jobs.life.submit.remove`, or the
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
    # Asked once: to try again for long would only keep a person waiting for a cluster that is gone.
    api = JobApi.connect(kubeconfig, namespace, name="").patient(0)
    try:
        return sorted(api.names())
    except ApiException as error:
        if error.status == 404:  # nobody has ever been able to submit one
            return []
        raise RuntimeError(f"the training jobs in {namespace}: {kube.said(error)}") from error
