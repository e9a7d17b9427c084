"""One GPU, tested by a pod that computes on it."""

from collections.abc import Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException

from clusters.pools import GpuPool
from core.context import Context
from core.kube import api_message
from core.wait import NotYet, until
from infra.gpus.cluster import GpuCluster, message_of, obstacle, settled
from infra.gpus.manifests import PROBE, probe_pod
from infra.gpus.reasons import Object
from jobs.spec.replicas import GPU

SECONDS = 900
"""How long the pod may take: a node has to fetch an image of several GB first."""
_GONE_SECONDS = 60
_NO_RIGHT = "cannot create resource"
"""The API server's words for an account without the right; other refusals are about the pod."""
_TAKEN = f"Insufficient {GPU}"
"""The scheduler's: nodes that offer GPUs have none left."""


class _Taken(Exception):
    """All GPUs are in use."""


def probe_gpu(
    cluster: GpuCluster, pool: GpuPool, image: str, account: str, context: Context
) -> dict[str, Any]:
    """Return what a pod found that computes on a GPU; whatever happens, none is left.

    Args:
        cluster: Where.
        pool: On one of these nodes.
        image: What it runs.
        account: As whom.
        context: Where to show how far it is.

    Raises:
        TimeoutError: it has not ended in time, with what it waited for.
        RuntimeError: it could not be made or started, or finds no GPU beside a driver.
        InterruptedError: the user pressed Ctrl-C.
    """
    _clear(cluster, context)
    try:
        cluster.start_probe(probe_pod(pool, image, account, SECONDS))
    except ApiException as error:
        message = api_message(error)
        if _NO_RIGHT in message:
            return unverified(
                f"this account may not create a pod that tests a GPU: {message}", context
            )
        raise RuntimeError(
            f"no GPU could be tested, because its pod is refused: {message}. A ResourceQuota "
            f"of namespace {cluster.namespace} must allow one {GPU}"
        ) from error
    try:
        pod = until(lambda: _ended(cluster), SECONDS, f"pod {PROBE}, which tests a GPU", context)
    except _Taken:
        return unverified("all GPUs are in use, so none was tested", context)
    finally:
        cluster.end_probe()
    return _judged(pod, pool, context)


def unverified(reason: str, context: Context | None = None) -> dict[str, Any]:
    """Return the state `unverified` with its reason; with a context, print a warning."""
    if context is not None:
        context.warn(f"cuda: unverified: {reason}")
    return {"state": "unverified", "reason": reason}


def _clear(cluster: GpuCluster, context: Context) -> None:
    """Remove the pod that an interrupted `up` left."""

    def gone() -> None:
        if cluster.probe() is not None:
            cluster.end_probe()
            raise NotYet("it is being deleted")

    until(gone, _GONE_SECONDS, f"an earlier pod {PROBE} to go", context)


def _ended(cluster: GpuCluster) -> Object:
    pod = cluster.probe()
    if pod is None:
        raise RuntimeError(f"pod {PROBE}, which tests a GPU, was deleted, and not by Slipway")
    if settled(pod):
        return pod
    missing = obstacle(pod)
    if _TAKEN in missing:
        raise _Taken
    raise NotYet(missing)


def _judged(pod: Object, pool: GpuPool, context: Context) -> dict[str, Any]:
    """Return what the pod found.

    Raises:
        RuntimeError: it could not look, or finds no GPU though its node has a driver.
    """
    found = message_of(pod)
    if found is None:
        raise RuntimeError(f"pod {PROBE}, which tests a GPU, reported nothing: {obstacle(pod)}")
    if found.get("device") == "cuda":
        return {"state": "verified", **_facts(found)}
    node, reason = found.get("node"), found.get("reason")
    if found.get("driver") is None:
        return unverified(
            f"node {node} offers {GPU}, but its kernel has no NVIDIA driver, so that capacity is "
            f"not real ({reason})",
            context,
        )
    raise RuntimeError(
        f"node {node} offers {GPU} and has a driver ({found['driver']}), but a pod with one can't "
        f"compute on it: {reason}. NVIDIA's runtime must be containerd's default, and the driver "
        f"at least as new as CUDA {found.get('cuda')} requires; that is for {pool.driver}"
    )


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    names = ("device_name", "devices", "node", "driver", "cuda", "nccl", "torch")
    return {name: found[name] for name in names if found.get(name)}
