"""The resource `slipway:infra:GpuReady`, which waits until the nodes' GPUs are allocatable."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from clusters import cloud_reports
from clusters.nodes import GpuPool
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import REFUSED, Request, api_message, ask, connect
from core.manifests import troubles, unready
from core.rollout import REQUEST_SECONDS, Rollout
from core.wait import NotYet, until
from infra.gpus import NAMESPACE, PLUGIN
from jobs.api.client import JobApi
from jobs.model.names import GPU

Object = Mapping[str, Any]
NODES_SECONDS = 600
"""Time limit for existing nodes' GPUs to become allocatable: drivers and images are large."""
_NO_DRIVER = re.compile(
    r"NVML|ERROR_LIBRARY_NOT_FOUND|ERROR_DRIVER_NOT_LOADED|libnvidia-ml|Incompatible strategy"
    r"|version mismatch",
    re.IGNORECASE,
)
"""Matches log lines from a device plugin that can't find or access NVIDIA's driver:
https://github.com/NVIDIA/k8s-device-plugin/issues/478 and /issues/856."""
_COMING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that Kubernetes sets and removes itself."""
_MOST = 5


class GpuReadyHandler(Handler):
    """Waits until the pool's GPUs are allocatable, unless the pool can scale to zero nodes.

    `infra.gpus.component` sets the resource's inputs, and adds job results to its `cuda` output.
    """

    outputs: ClassVar[tuple[str, ...]] = ("cuda",)

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        pool = GpuPool.from_input(inputs["pool"])
        try:
            nodes = offering(nodes_of(connect(inputs["kubeconfig"]), pool))
        except ApiException:
            return []  # Without the right to read nodes, drift can't be detected.
        except urllib3.exceptions.HTTPError:
            nodes = []
        return [Change("pool", drift=True)] if len(nodes) < pool.min_nodes else []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until the nodes' GPUs are allocatable; a timeout error says why some are not."""
        pool = GpuPool.from_input(inputs["pool"])
        if pool.min_nodes == 0:
            return _ready("the pool scales from zero: the first job with GPUs creates a node")
        api = connect(inputs["kubeconfig"])

        def enough() -> list[Object]:
            try:
                ready = offering(nodes_of(api, pool))
                if len(ready) >= pool.min_nodes:
                    return ready
                missing = "\n".join(f"  {each}" for each in reasons(pool, look(api, pool)))
            except ApiException as error:
                if error.status in REFUSED:
                    raise
                raise NotYet(api_message(error)) from error
            raise NotYet(f"{len(ready)} of {pool.min_nodes} nodes have {GPU}:\n{missing}")

        try:
            nodes = until(enough, NODES_SECONDS, "the cluster's GPUs", context)
        except ApiException as error:
            reason = f"this account is not allowed to list nodes: {api_message(error)}"
            context.warn(f"cuda: unverified: {reason}")
            return _ready(reason)
        for node in nodes:
            if (count := offered(node)) < pool.per_node:
                name = node["metadata"]["name"]
                context.warn(
                    f"node {name}: only {count} of {pool.per_node} x {GPU} can be allocated"
                )
        counts = {"nodes": len(nodes), "gpus": sum(map(offered, nodes))}
        return _ready("no job has computed on a GPU yet", **counts)


def _ready(reason: str, **counts: Any) -> tuple[str, Properties]:
    return "gpus", {"cuda": {"state": "unverified", "reason": reason, **counts}}


@dataclass
class Seen:
    """The observed state of a pool, as far as this account is allowed to read it."""

    nodes: Sequence[Object]  # the pool's
    plugins: Sequence[Object] = ()  # the pods of Slipway's device plugin
    logs: dict[str, Sequence[str]] = field(default_factory=dict)  # last lines, by pod name
    warnings: Sequence[str] = ()  # in the plugin's namespace
    setbacks: Sequence[str] = ()  # the reasons why an autoscaler created no nodes


def nodes_of(api: ApiClient, pool: GpuPool) -> list[Object]:
    """Return the nodes with the pool's labels. Raises the same exceptions as `core.kube.ask`."""
    request = Request("GET", "/api/v1/nodes", {"labelSelector": _labels(pool, ",")})
    return [*ask(api, request, limit=REQUEST_SECONDS)["items"]]


def offering(nodes: Sequence[Object]) -> list[Object]:
    """Return the nodes that are Ready and have an allocatable GPU."""
    return [node for node in nodes if offered(node) > 0 and unready(node) is None]


def offered(node: Object) -> int:
    """Return the number of allocatable GPUs on a node."""
    return int((node["status"].get("allocatable") or {}).get(GPU, 0))


def look(api: ApiClient, pool: GpuPool) -> Seen:
    """Return the state from which `reasons` explains missing GPUs, as far as it can be read.

    Raises the same exceptions as `core.kube.ask`.
    """
    view = Seen(nodes_of(api, pool))
    # This account may lack the right to read these.
    if pool.device_plugin:
        with suppress(ApiException):
            plugin = Rollout(api, NAMESPACE, PLUGIN)  # It is a DaemonSet, but its pods are alike.
            chosen = f"app.kubernetes.io/name={PLUGIN}"
            view.plugins = plugin.get("pods", labelSelector=chosen)["items"]
            for each in map(_name, view.plugins):
                # If it is empty, the log before the last restart.
                view.logs[each] = plugin.log(each) or plugin.log(each, previous="true")
            warnings = plugin.get("events", fieldSelector="type=Warning")["items"]
            view.warnings = [str(event.get("message", "")) for event in warnings]
    with suppress(ApiException):
        report = JobApi(api, namespace="", name="", retry_seconds=0).autoscaler_report()
        view.setbacks = [] if report is None else cloud_reports.setbacks(*report)
    return view


def reasons(pool: GpuPool, view: Seen) -> list[str]:
    """Return the first few reasons why too few of the pool's nodes have allocatable GPUs. Pure."""
    busy = offering(view.nodes)
    texts = [
        f"node {_name(each)} {_reason(each, pool, view)}" for each in view.nodes if each not in busy
    ]
    if len(view.nodes) < pool.min_nodes:
        which = f" with the labels {_labels(pool, ', ')}" if pool.labels else ""
        texts = [
            f"only {len(view.nodes)} of {pool.min_nodes} nodes{which} exist",
            *(f"the autoscaler can't add nodes: {each}" for each in view.setbacks),
            *texts,
        ]
    return texts[:_MOST] + ([f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else [])


def _reason(node: Object, pool: GpuPool, view: Seen) -> str:
    if (why := unready(node)) is not None:
        return f"is not Ready: {why}"
    if node["spec"].get("unschedulable"):
        return f"is cordoned; run `kubectl uncordon {_name(node)}`"
    if taints := list(_foreign(node, pool)):
        return (
            f"has the taint {', '.join(taints)}, which is not in the cluster's settings, so "
            "neither the device plugin nor jobs can run there; add it to the pool's `taints`, or "
            "remove it from the node"
        )
    if int((node["status"].get("capacity") or {}).get(GPU, 0)) > 0:
        return "has GPUs that its device plugin reports as unhealthy; the plugin's log says why"
    if not pool.device_plugin:
        return f"has no {GPU}; {pool.driver} must install the driver and the device plugin"
    return _of_plugin(node, pool, view)


def _of_plugin(node: Object, pool: GpuPool, view: Seen) -> str:
    """Return why Slipway's device plugin does not advertise a node's GPUs."""
    plugin = next((pod for pod in view.plugins if pod["spec"].get("nodeName") == _name(node)), None)
    if plugin is None:
        why = f": {view.warnings[-1]}" if view.warnings else " yet"
        return f"has no pod from DaemonSet {NAMESPACE}/{PLUGIN}{why}"
    log = view.logs.get(_name(plugin), ())
    if errors := [line for line in log if _NO_DRIVER.search(line)]:
        return (
            f"has no NVIDIA driver for containers; its device plugin logged {errors[-1]!r}. "
            f"{pool.driver} must install the driver, and NVIDIA's runtime must be "
            "containerd's default"
        )
    state = "; ".join(troubles(plugin)) or plugin["status"].get("phase", "")
    last = f", and its last log line is {log[-1]!r}" if log else ""
    return f"has no {GPU}; its device plugin is {state}{last}"


def _foreign(node: Object, pool: GpuPool) -> Iterator[str]:
    """Yield a node's taints that repel pods and are not in the pool's settings."""
    tolerated = [str(each) for each in pool.taints]
    for taint in node["spec"].get("taints") or []:
        text = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        hinders = taint["effect"] in {"NoSchedule", "NoExecute"}
        if hinders and text not in tolerated and not taint["key"].startswith(_COMING):
            yield text


def _labels(pool: GpuPool, between: str) -> str:
    return between.join(f"{key}={value}" for key, value in pool.labels.items())


def _name(thing: Object) -> str:
    return str(thing["metadata"]["name"])
