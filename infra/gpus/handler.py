"""The resource `slipway:infra:GpuReady`: the cluster's GPUs are ready, and one has been tested."""

from typing import Any, ClassVar, Literal

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from clusters.pools import GpuPool
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import Request, api_message, ask, connect, may_be_gone
from core.manifests import condition, troubles
from core.process import json_map
from core.wait import NotYet, until
from infra.gpus.manifests import PROBE, pool_of, probe_pod
from infra.gpus.nodes import LIMIT_SECONDS, Object, look, nodes_of, offered, offering, reasons
from jobs.spec.replicas import GPU

NODES_SECONDS = 600
"""How long existing nodes may take to offer their GPUs: drivers and images are large."""
PROBE_SECONDS = 900
"""How long the pod that tries one may take: a node has to fetch an image of several GB first."""
_GONE_SECONDS = 60
_NO_RIGHT = "cannot create resource"
"""The API server's words for an account without the right; other refusals are about the pod."""
_TAKEN = f"Insufficient {GPU}"
"""The scheduler's: nodes that offer GPUs have none left."""
_KNOWN = ("device_name", "devices", "node", "driver", "cuda", "nccl", "torch")

Cuda = dict[str, Any]
"""`state`: verified or unverified; and what is known of the GPUs, or the `reason`."""


class GpuReadyHandler(Handler):
    """Waits until the pool's nodes offer their GPUs, and has a pod compute on one of them.

    It does not wait for a pool that may have no nodes: a node costs money from its creation on.
    The first job with GPUs causes one to be created, and its result decides (`judge_cuda`).
    `infra.gpus.component` has its inputs.
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
        return f"{inputs['namespace']}/gpus", {"cuda": _verified(inputs, context)}

    def delete(self, state: Properties, context: Context) -> None:
        try:
            _request(connect(state["kubeconfig"]), "DELETE", state)
        except urllib3.exceptions.HTTPError:
            if not may_be_gone():
                raise


def _verified(inputs: Properties, context: Context) -> Cuda:
    """Return what the cluster's GPUs are.

    Raises:
        TimeoutError: they are not offered, or none could be tried, in time; with the reasons.
        RuntimeError: the pod that tries one could not be made or started, or can't use its driver.
        InterruptedError: the user pressed Ctrl-C.
    """
    pool = pool_of(inputs["pool"])
    if pool.min_nodes == 0:
        return _unverified(
            "the pool scales from zero, so no node was created for a test: the first job with GPUs "
            "creates one, and its result shows whether CUDA works"
        )
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
        return _unverified(f"this account may not list nodes: {api_message(error)}", context)
    for node in nodes:
        if (count := offered(node)) < pool.per_node:
            name = node["metadata"]["name"]
            context.warn(f"node {name} offers {count} of its {pool.per_node} x {GPU}")
    known = {"nodes": len(nodes), "gpus": sum(map(offered, nodes))}
    if inputs.get("image") is None:
        return known | _unverified(
            "no job of the stack requests GPUs, so there is no CUDA image to test one with"
        )
    return known | _tried(api, pool, inputs, context)


def _unverified(reason: str, context: Context | None = None) -> Cuda:
    """Return the state `unverified` with its reason; with a context, print a warning."""
    if context is not None:
        context.warn(f"cuda: unverified: {reason}")
    return {"state": "unverified", "reason": reason}


def _tried(api: ApiClient, pool: GpuPool, inputs: Properties, context: Context) -> Cuda:
    """Return what a pod found that computes on a GPU; whatever happens, none is left."""

    def gone() -> None:
        if _request(api, "GET", inputs) is not None:
            _request(api, "DELETE", inputs)
            raise NotYet("it is being deleted")

    def ended() -> Object | None:
        """Return the pod once it has ended; None where all GPUs are in use."""
        pod = _request(api, "GET", inputs)
        if pod is None:
            raise RuntimeError(f"pod {PROBE}, which tests a GPU, was deleted, and not by Slipway")
        if (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            return pod
        missing = _obstacle(pod)
        if _TAKEN in missing:
            return None
        raise NotYet(missing)

    # An interrupted `up` may have left one.
    until(gone, _GONE_SECONDS, f"an earlier pod {PROBE} to go", context)
    pods = f"/api/v1/namespaces/{inputs['namespace']}/pods"
    body = probe_pod(pool, inputs["image"], inputs["account"], PROBE_SECONDS)
    try:
        ask(api, Request("POST", pods, body=body), limit=LIMIT_SECONDS)
    except ApiException as error:
        message = api_message(error)
        if _NO_RIGHT in message:
            text = f"this account may not create a pod that tests a GPU: {message}"
            return _unverified(text, context)
        raise RuntimeError(
            f"no GPU could be tested, because its pod is refused: {message}. A ResourceQuota "
            f"of namespace {inputs['namespace']} must allow one {GPU}"
        ) from error
    try:
        pod = until(ended, PROBE_SECONDS, f"pod {PROBE}, which tests a GPU", context)
    finally:
        _request(api, "DELETE", inputs)
    if pod is None:
        return _unverified("all GPUs are in use, so none was tested", context)
    return _judged(pod, pool, context)


def _request(
    api: ApiClient, method: Literal["GET", "DELETE"], properties: Properties
) -> Object | None:
    """Return the pod that tries a GPU, or delete it at once; None when it does not exist."""
    path = f"/api/v1/namespaces/{properties['namespace']}/pods/{PROBE}"
    query = {"gracePeriodSeconds": "0"} if method == "DELETE" else {}
    try:
        return dict(ask(api, Request(method, path, query), limit=LIMIT_SECONDS))
    except ApiException as error:
        if error.status != 404:
            raise
        return None


def _judged(pod: Object, pool: GpuPool, context: Context) -> Cuda:
    """Return what the pod found; raise if that is nothing, or no GPU though there is a driver."""
    (container, *_) = pod["status"].get("containerStatuses") or [{"state": {}}]
    found = json_map(container["state"].get("terminated", {}).get("message", ""))
    if not found:
        raise RuntimeError(f"pod {PROBE}, which tests a GPU, reported nothing: {_obstacle(pod)}")
    if found.get("device") == "cuda":
        return {"state": "verified", **{key: found[key] for key in _KNOWN if found.get(key)}}
    node, reason = found.get("node"), found.get("reason")
    if found.get("driver") is None:
        text = f"node {node} offers {GPU}, but its kernel has no NVIDIA driver, so that capacity is"
        return _unverified(f"{text} not real ({reason})", context)
    raise RuntimeError(
        f"node {node} offers {GPU} and has a driver ({found['driver']}), but a pod with one can't "
        f"compute on it: {reason}. NVIDIA's runtime must be containerd's default, and the driver "
        f"at least as new as CUDA {found.get('cuda')} requires; that is for {pool.driver}"
    )


def _obstacle(pod: Object) -> str:
    """Return what the pod waits for, or what became of it."""
    status = pod.get("status") or {}
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message", scheduled.get("reason", "")))
    if trouble := next(troubles(pod), None):
        return f"{trouble} on node {pod['spec'].get('nodeName')}"
    state = (status.get("reason"), status.get("message"))
    return ": ".join(str(each) for each in state if each) or f"it is {status.get('phase')}"
