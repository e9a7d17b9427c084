"""Nodes with GPUs, acted out on the one node of the cluster behind.

A pool has nodes while its labels, its taints and `nvidia.com/gpu` are on that node: a number for
scheduling, with no GPU behind it.
https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/

The same node acts for the system pool. So the taints of a pool that always has nodes only prefer
that other pods keep off, or the cluster's own would find no node; one that grows from none keeps
them off.
"""

from typing import Any

from kubernetes import client, config

from core.kube import Request, ask, connect
from tests.doubles.azure_native.pools import Pool, pool_of, with_count
from tests.doubles.azure_native.store import Store
from tests.engine.awaiting import await_true

RESOURCE = "nvidia.com/gpu"
LIMIT = 20  # seconds for a request
_MARK = "double.slipway.dev/pool"
_CONTENTS = (
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "rbac.authorization.k8s.io/v1/clusterroles",
    "apiextensions.k8s.io/v1/customresourcedefinitions",
)


def follow(store: Store, resource_id: str, *, leaving: bool = False) -> None:
    """Give a pool as many nodes as its resource says, none if it is `leaving`."""
    pool = pool_of(store.find(resource_id))
    if pool is not None:
        fewest, most = pool.bounds
        scale(store, pool, 0 if leaving else min(max(pool.count, fewest), most))


def scale(store: Store, pool: Pool, nodes: int) -> None:
    """Give a pool that many nodes."""
    now = store.find(pool.record.id)
    if now is not None:
        store.put(with_count(now, nodes))
    store.note("scale", id=pool.record.id, nodes=nodes)
    _mark(core(store), pool, nodes)


def evict(store: Store, resource_id: str) -> list[str]:
    """Evict a spot pool's nodes as Azure would, and return the pods that were on them.

    https://learn.microsoft.com/azure/aks/spot-node-pool
    """
    pool = pool_of(store.find(resource_id))
    if pool is None or not pool.is_spot:
        raise LookupError(f"{resource_id} is no spot pool")
    api = core(store)
    listed = api.list_pod_for_all_namespaces(_request_timeout=LIMIT).items
    lost = [pod.metadata for pod in listed if gpus_of(pod) and pod.spec.node_name]
    scale(store, pool, 0)
    for pod in lost:
        api.delete_namespaced_pod(
            pod.name, pod.namespace, grace_period_seconds=0, _request_timeout=LIMIT
        )
    return [pod.name for pod in lost]


def empty(store: Store) -> None:
    """Delete what Pulumi created in the cluster behind, which Azure would delete as a whole."""
    if not (kubeconfig := store.kubeconfig.read_text()):
        return  # there is none
    api = connect(kubeconfig)
    places = [*(f"/apis/{each}" for each in _CONTENTS), "/api/v1/namespaces"]
    places.append("/api/v1/namespaces/kube-system/configmaps")

    def is_empty() -> bool:
        left = False
        for place in places:
            for each in ask(api, Request("GET", place), limit=LIMIT)["items"]:
                managers = each["metadata"].get("managedFields", [])
                if any(by["manager"].startswith("pulumi-kubernetes") for by in managers):
                    name, left = each["metadata"]["name"], True
                    ask(api, Request("DELETE", f"{place}/{name}"), limit=LIMIT, settled=404)
        return not left

    await_true(is_empty)


def core(store: Store) -> Any:
    """Return the API of the cluster behind."""
    loaded = config.new_client_from_config(str(store.kubeconfig))  # type: ignore[no-untyped-call]
    return client.CoreV1Api(loaded)


def gpus_of(pod: Any) -> int:
    """Return the GPUs that a pod requests."""
    limits = [each.resources.limits or {} for each in pod.spec.containers if each.resources]
    return sum(int(limit.get(RESOURCE, 0)) for limit in limits)


def _mark(api: Any, pool: Pool, nodes: int) -> None:
    """Put the pool's labels, taints and GPUs on the node, or take them off."""
    [node] = api.list_node(_request_timeout=LIMIT).items
    name = node.metadata.name
    softened = {"effect": "PreferNoSchedule"} if pool.bounds[0] > 0 else {}
    ours = [{**taint, **softened} for taint in pool.taints]
    kept = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect}
        for taint in node.spec.taints or ()
        if taint.key not in [each["key"] for each in ours]
    ]
    labels = {**pool.labels, _MARK: pool.name}
    body = {
        "metadata": {"labels": labels if nodes else dict.fromkeys(labels)},
        "spec": {"taints": [*kept, *(ours if nodes else ())]},
    }
    gpus = str(nodes * pool.gpus_per_node) if nodes else None
    status = {"status": {"capacity": {RESOURCE: gpus}, "allocatable": {RESOURCE: gpus}}}
    # Taints before GPUs: no other pod may be scheduled in between.
    api.patch_node(name, body, _request_timeout=LIMIT)
    api.patch_node_status(name, status, _request_timeout=LIMIT)
