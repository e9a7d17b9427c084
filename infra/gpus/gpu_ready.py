"""The resource `slipway:infra:GpuReady`: the cluster's nodes offer their GPUs."""

from typing import Any, ClassVar

import urllib3
from kubernetes.client.exceptions import ApiException

from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import api_message, connect
from core.wait import NotYet, until
from infra.gpus.manifests import pool_of
from infra.gpus.nodes import Object, look, nodes_of, offered, offering, reasons
from jobs.model.names import GPU

NODES_SECONDS = 600
"""How long existing nodes may take to offer their GPUs: drivers and images are large."""


class GpuReadyHandler(Handler):
    """Waits until the pool's nodes offer their GPUs; the jobs show whether they compute.

    It does not wait for a pool that may have no nodes: a node costs money from its creation on.
    `infra.gpus.component` has its inputs, and adds to the output `cuda` what the jobs found.
    """

    outputs: ClassVar[tuple[str, ...]] = ("cuda",)

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        pool = pool_of(inputs["pool"])
        try:
            found = offering(nodes_of(connect(inputs["kubeconfig"]), pool))
        except ApiException:
            return []  # Without the right to read nodes drift can't be detected.
        except urllib3.exceptions.HTTPError:
            return [Change("pool", drift=True)]
        return [Change("pool", drift=True)] if len(found) < pool.min_nodes else []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait for the nodes; a time-out has the reason of each that offers no GPU."""
        pool = pool_of(inputs["pool"])
        if pool.min_nodes == 0:
            return _ready("the pool scales from zero: the first job with GPUs creates a node")
        api = connect(inputs["kubeconfig"])

        def enough() -> list[Object]:
            found = offering(nodes_of(api, pool))
            if len(found) < pool.min_nodes:
                missing = "\n".join(f"  {each}" for each in reasons(pool, look(api, pool)))
                raise NotYet(f"{len(found)} of {pool.min_nodes} nodes offer {GPU}:\n{missing}")
            return found

        try:
            nodes = until(enough, NODES_SECONDS, "the cluster's GPUs", context)
        except ApiException as error:
            reason = f"this account may not list nodes: {api_message(error)}"
            context.warn(f"cuda: unverified: {reason}")
            return _ready(reason)
        for node in nodes:
            if (count := offered(node)) < pool.per_node:
                name = node["metadata"]["name"]
                context.warn(f"node {name} offers {count} of its {pool.per_node} x {GPU}")
        known = {"nodes": len(nodes), "gpus": sum(map(offered, nodes))}
        return _ready("no job has computed on a GPU yet", **known)


def _ready(reason: str, **known: Any) -> tuple[str, Properties]:
    return "gpus", {"cuda": {"state": "unverified", "reason": reason, **known}}
