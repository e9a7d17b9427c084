"""Why nodes do not offer their GPUs, from what the API server shows. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.pools import GpuPool
from core.manifests import troubles
from infra.gpus.manifests import NAMESPACE, PLUGIN
from jobs.spec.replicas import GPU

Object = Mapping[str, Any]
_NO_DRIVER = re.compile(
    r"NVML|ERROR_LIBRARY_NOT_FOUND|ERROR_DRIVER_NOT_LOADED|libnvidia-ml|Incompatible strategy"
    r"|version mismatch",
    re.IGNORECASE,
)
"""What the device plugin logs if it finds no driver, or one that its runtime does not pass in.

https://github.com/NVIDIA/k8s-device-plugin/issues/478 and /issues/856
"""
_COMING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes itself puts on nodes and takes away."""
_HINDERING = frozenset({"NoSchedule", "NoExecute"})
_MOST = 5


@dataclass(frozen=True)
class Seen:
    """What a cluster shows of a pool.

    Args:
        nodes: That have the pool's labels.
        plugins: Pods of Slipway's own device plugin.
        logs: The end of their logs, by their names.
        warnings: What Kubernetes warned of in the plugin's namespace.
        setbacks: Why an autoscaler made no nodes.
    """

    nodes: Sequence[Object]
    plugins: Sequence[Object] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    setbacks: Sequence[str] = ()


def offering(nodes: Sequence[Object]) -> list[Object]:
    """Return the nodes that are Ready and offer a GPU to pods."""
    return [node for node in nodes if offered(node) > 0 and _unready(node) is None]


def offered(node: Object) -> int:
    """Return how many GPUs a node offers to pods."""
    return int((node["status"].get("allocatable") or {}).get(GPU, 0))


def reasons(pool: GpuPool, seen: Seen) -> list[str]:
    """Return why fewer nodes offer GPUs than the pool has at least, the first of many."""
    found = [f"node {_name(node)} {_reason(node, pool, seen)}" for node in _idle(seen.nodes)]
    if len(seen.nodes) < pool.min_nodes:
        labels = ", ".join(f"{key}={value}" for key, value in pool.labels.items())
        which = f" with the labels {labels}" if labels else ""
        found.insert(0, f"there are {len(seen.nodes)} of {pool.min_nodes} nodes{which}")
        found[1:1] = [f"the autoscaler adds none: {each}" for each in seen.setbacks]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return found[:_MOST] + more


def _idle(nodes: Sequence[Object]) -> list[Object]:
    busy = {_name(node) for node in offering(nodes)}
    return [node for node in nodes if _name(node) not in busy]


def _reason(node: Object, pool: GpuPool, seen: Seen) -> str:
    """Return why a node offers no GPU, and what to do."""
    if (unready := _unready(node)) is not None:
        return f"is not Ready: {unready}"
    if node["spec"].get("unschedulable"):
        return f"is cordoned; `kubectl uncordon {_name(node)}` ends that"
    if taints := list(_foreign(node, pool)):
        return (
            f"has the taint {', '.join(taints)}, which the cluster's settings do not name, so that "
            "neither the device plugin nor a job runs there; add it to the pool's `taints`, or "
            "remove it from the node"
        )
    if int((node["status"].get("capacity") or {}).get(GPU, 0)) > 0:
        return "has GPUs that its device plugin calls unhealthy; its log says why"
    if not pool.device_plugin:
        return f"offers no {GPU}; driver and device plugin are for {pool.driver} to install"
    return _of_plugin(node, pool, seen)


def _of_plugin(node: Object, pool: GpuPool, seen: Seen) -> str:
    """Return why Slipway's own device plugin does not advertise a node's GPUs."""
    plugin = next((pod for pod in seen.plugins if _node_of(pod) == _name(node)), None)
    if plugin is None:
        why = f": {seen.warnings[-1]}" if seen.warnings else " yet"
        return f"has no pod of DaemonSet {NAMESPACE}/{PLUGIN}{why}"
    log = seen.logs.get(plugin["metadata"]["name"], ())
    if found := [line for line in log if _NO_DRIVER.search(line)]:
        return (
            f"has no NVIDIA driver for containers, says its device plugin: {found[-1]!r}. The "
            f"driver is for {pool.driver} to install, and NVIDIA's runtime has to be containerd's "
            "default one"
        )
    state = "; ".join(troubles(plugin)) or plugin["status"].get("phase", "")
    last = f", and says at last {log[-1]!r}" if log else ""
    return f"offers no {GPU}; its device plugin is {state}{last}"


def _unready(node: Object) -> str | None:
    for condition in node["status"].get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] != "True":
            return str(condition.get("message", condition["status"]))
    return None


def _foreign(node: Object, pool: GpuPool) -> Iterator[str]:
    """Yield the taints of a node that keep pods off it and that its pool does not name."""
    known = {(each.key, each.value, each.effect) for each in pool.taints}
    for taint in node["spec"].get("taints") or []:
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        is_coming = key.startswith(_COMING)
        if effect in _HINDERING and not is_coming and (key, value, effect) not in known:
            yield f"{key}={value}:{effect}"


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _node_of(pod: Object) -> str | None:
    name: str | None = pod["spec"].get("nodeName")
    return name
