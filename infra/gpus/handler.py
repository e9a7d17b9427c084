"""The resource `slipway:infra:GpuReady`: the cluster's GPUs are ready, and one has been tested."""

from typing import Any, ClassVar

import urllib3
from kubernetes.client.exceptions import ApiException

from clusters.pools import GpuPool
from core.context import Context
from core.handler import UNKNOWN, Change, Handler, Properties, compare
from core.kube import api_message, connect, may_be_gone
from core.wait import NotYet, until
from infra.gpus import probe
from infra.gpus.cluster import GpuCluster
from infra.gpus.manifests import pool_of
from infra.gpus.reasons import Object, offered, offering, reasons
from jobs.spec.replicas import GPU

NODES_SECONDS = 600
"""How long existing nodes may take to offer their GPUs: drivers and images are large."""

Cuda = dict[str, Any]
"""`state`: verified or unverified; and what is known of the GPUs, or the `reason`."""


class GpuReadyHandler(Handler):
    """Waits until the pool's nodes offer their GPUs, and has a pod compute on one of them.

    It does not wait for a pool that may have no nodes: a node costs money from its creation on.
    The first job with GPUs causes one to be created, and its result decides (`judge_cuda`).

    Inputs: `kubeconfig`; `namespace` and `account` of the pod; `pool` (`manifests.facts`);
    `image`, the trainer's for GPUs, where a job of the stack needs it; and `rollout`, which changes
    with the device plugin.
    """

    type: ClassVar[str] = "slipway:infra:GpuReady"
    outputs: ClassVar[tuple[str, ...]] = ("cuda",)

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        changes = compare(state, inputs)
        if changes or UNKNOWN in inputs.values():
            return changes
        pool = pool_of(inputs["pool"])
        try:
            found = offering(_cluster(inputs).nodes(pool))
        except ApiException:
            return []  # Without the right to read nodes drift can't be detected.
        except urllib3.exceptions.HTTPError:
            return [Change("pool", drift=True)]
        return [Change("pool", drift=True)] if len(found) < pool.min_nodes else []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        return f"{inputs['namespace']}/gpus", {"cuda": _verified(inputs, context)}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        return {"cuda": state["cuda"]}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Wait for nodes that are gone, and try a GPU again: the change may concern it."""
        return {"cuda": _verified(inputs, context)}

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        try:
            _cluster(state).end_probe()
        except urllib3.exceptions.HTTPError:
            if not may_be_gone():
                raise


def _verified(inputs: Properties, context: Context) -> Cuda:
    """Return what the cluster's GPUs are.

    Raises:
        TimeoutError: they are not offered, or none could be tried, in time; with the reasons.
        RuntimeError: jobs can't use the GPU that was tested, although a driver exists.
        InterruptedError: the user pressed Ctrl-C.
    """
    pool = pool_of(inputs["pool"])
    if pool.min_nodes == 0:
        return probe.unverified(
            "the pool scales from zero, so no node was created for a test: the first job with GPUs "
            "creates one, and its result shows whether CUDA works"
        )
    cluster = _cluster(inputs)
    try:
        nodes = _awaited(cluster, pool, context)
    except ApiException as error:
        return probe.unverified(f"this account may not list nodes: {api_message(error)}", context)
    known = {"nodes": len(nodes), "gpus": sum(map(offered, nodes))}
    for node in nodes:
        if (count := offered(node)) < pool.per_node:
            name = node["metadata"]["name"]
            context.warn(f"node {name} offers {count} of its {pool.per_node} x {GPU}")
    image = inputs.get("image")
    if image is None:
        return known | probe.unverified(
            "no job of the stack requests GPUs, so there is no CUDA image to test one with"
        )
    return known | probe.probe_gpu(cluster, pool, image, inputs["account"], context)


def _awaited(cluster: GpuCluster, pool: GpuPool, context: Context) -> list[Object]:
    """Return the nodes that offer GPUs once they are at least the pool's minimum."""

    def look() -> list[Object]:
        found = offering(cluster.nodes(pool))
        if len(found) < pool.min_nodes:
            missing = "\n".join(f"  {each}" for each in reasons(pool, cluster.look(pool)))
            raise NotYet(f"{len(found)} of {pool.min_nodes} nodes offer {GPU}:\n{missing}")
        return found

    return until(look, NODES_SECONDS, "the cluster's GPUs", context)


def _cluster(properties: Properties) -> GpuCluster:
    return GpuCluster(connect(properties["kubeconfig"]), properties["namespace"])
