"""Nodes with GPUs, and the pods beside them, as the API server shows them."""

from typing import Any

from clusters.nodes import GpuPool, Taint

POOL = GpuPool(
    per_node=1,
    min_nodes=1,
    max_nodes=4,
    labels={"pool": "gpu"},
    taints=(Taint("sku", "gpu"),),
    driver="AKS",
)
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


def node(name: str = "gpu-1", gpus: int | None = 1, **changed: Any) -> dict[str, Any]:
    """A node of the pool; `gpus` of None is one that does not tell of any."""
    amounts = {"cpu": "4"} | ({} if gpus is None else {"nvidia.com/gpu": str(gpus)})
    ready = changed.get("ready", "True")
    conditions = [{"type": "Ready", "status": ready, "message": "container runtime is down"}]
    spec: dict[str, Any] = {"taints": changed.get("taints", [SKU])}
    if changed.get("cordoned"):
        spec["unschedulable"] = True
    return {
        "metadata": {"name": name, "labels": {"pool": "gpu"}},
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": changed.get("capacity", amounts),
            "conditions": conditions,
        },
    }


def plugin(state: dict[str, Any] | None = None, on: str = "gpu-1") -> dict[str, Any]:
    """The pod of Slipway's device plugin on a node, in a state of its container."""
    container = {
        "name": "nvidia-device-plugin",
        "image": "plugin",
        "imageID": "",
        "ready": False,
        "restartCount": 3,
        "state": {"running": {}} if state is None else state,
    }
    return {
        "metadata": {"name": f"plugin-on-{on}"},
        "spec": {"nodeName": on, "containers": [{"name": "nvidia-device-plugin"}]},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }
