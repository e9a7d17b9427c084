"""Node pools with GPUs, acted out on the one node of the cluster that stands behind.

A node of the pool's is there while its label, its taint and `nvidia.com/gpu` are on that node. No
GPU is: a pod gets what it asks for by number alone, for scheduling.
https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/

The node is the system pool's as well. So a pool that always has nodes only prefers that others keep
off: the cluster's own pods would find no node to start on. One that grows from none keeps them off.
"""

from collections.abc import Sequence
from typing import Any

from scripts.offline.azure_recording.pools import Pool, pool_of, with_count
from scripts.offline.azure_recording.recording import Recording

RESOURCE = "nvidia.com/gpu"
_MARK = "recorded.slipway.dev/pool"
_LIMIT = 20  # seconds for a request


def follow(recording: Recording, resource_id: str, *, leaving: bool = False) -> None:
    """Bring the node to what a pool's record says; other resources have no part in it.

    Args:
        recording: Where it is recorded.
        resource_id: The pool, or whatever it is.
        leaving: Whether it is about to go, with all of its nodes.
    """
    record = recording.find(resource_id)
    pool = None if record is None else pool_of(record)
    if pool is not None and pool.per_node:
        least, most = pool.bounds
        scale(recording, pool, 0 if leaving else min(max(pool.count, least), most))


def scale(recording: Recording, pool: Pool, nodes: int) -> None:
    """Have a pool so many nodes."""
    now = recording.find(pool.record.id)
    if now is not None:
        recording.put(with_count(now, nodes))
    recording.note("scale", id=pool.record.id, nodes=nodes)
    _bring(core(recording), pool, nodes)


def evict(recording: Recording, resource_id: str) -> list[str]:
    """Take back the nodes of a spot pool as Azure would, and return the pods that went with them.

    https://learn.microsoft.com/azure/aks/spot-node-pool: whether there are new ones is the
    autoscaler's business.
    """
    record = recording.find(resource_id)
    pool = None if record is None else pool_of(record)
    if pool is None or not pool.is_spot:
        raise LookupError(f"{resource_id} is no spot pool")
    api = core(recording)
    lost = [pod for pod in _pods(api) if asked(pod) and pod.spec.node_name]
    scale(recording, pool, 0)
    recording.note("evict", id=resource_id, pods=[pod.metadata.name for pod in lost])
    for pod in lost:
        api.delete_namespaced_pod(
            pod.metadata.name,
            pod.metadata.namespace,
            grace_period_seconds=0,
            _request_timeout=_LIMIT,
        )
    return [pod.metadata.name for pod in lost]


def core(recording: Recording) -> Any:
    """Return the API of the cluster that stands behind."""
    # Imported late: a preview has no use for it.
    from kubernetes import client, config  # noqa: PLC0415

    loaded = config.new_client_from_config(str(recording.kubeconfig))  # type: ignore[no-untyped-call]
    return client.CoreV1Api(loaded)


def asked(pod: Any) -> int:
    """Return how many GPUs a pod asks for."""
    limits = [each.resources.limits or {} for each in pod.spec.containers if each.resources]
    return sum(int(limit.get(RESOURCE, 0)) for limit in limits)


def _pods(api: Any) -> Sequence[Any]:
    found: Sequence[Any] = api.list_pod_for_all_namespaces(_request_timeout=_LIMIT).items
    return found


def _bring(api: Any, pool: Pool, nodes: int) -> None:
    """Put the pool's marks on the node, or take them off."""
    [node] = api.list_node(_request_timeout=_LIMIT).items
    name = node.metadata.name
    is_there = nodes > 0
    softened = {"effect": "PreferNoSchedule"} if pool.bounds[0] > 0 else {}
    ours = [{**taint, **softened} for taint in pool.taints]
    keys = [taint["key"] for taint in ours]
    kept = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect}
        for taint in node.spec.taints or ()
        if taint.key not in keys
    ]
    labels = {**pool.labels, _MARK: pool.name}
    body = {
        "metadata": {"labels": labels if is_there else dict.fromkeys(labels)},
        "spec": {"taints": [*kept, *(ours if is_there else ())]},
    }
    gpus = str(nodes * pool.per_node) if is_there else None
    status = {"status": {"capacity": {RESOURCE: gpus}, "allocatable": {RESOURCE: gpus}}}
    # First what can be scheduled on, then who may: never a node that is free for all.
    api.patch_node(name, body, _request_timeout=_LIMIT)
    api.patch_node_status(name, status, _request_timeout=_LIMIT)
