"""NVIDIA's device plugin, a YAML file filled in for a pool, and a pool as a resource's input."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clusters.cluster import REGISTRY_LOGIN
from clusters.image_registry import pull_secret
from clusters.nodes import GpuPool
from core.manifests import Manifest, rendered

NAMESPACE = "slipway-gpu"  # of the device plugin alone: nothing else may do what it has to
PLUGIN = "nvidia-device-plugin"  # the DaemonSet's name, and the plugin's image in `Cluster.images`
_POOL = TypeAdapter(GpuPool)


def device_plugin(pool: GpuPool, image: str, login: str | None = None) -> list[Manifest]:
    """Return the plugin's namespace, the Secret with which nodes pull it, if any, and DaemonSet."""
    namespace, daemon_set = rendered(Path(__file__).with_name("device-plugin.yaml"))
    pod = daemon_set["spec"]["template"]["spec"]
    tolerations = [{"operator": "Equal", **asdict(each)} for each in pool.taints]
    placement = {"nodeSelector": dict(pool.labels), "tolerations": tolerations}
    pod |= {key: value for key, value in placement.items() if value}
    # Where labels select nodes with GPUs, the plugin restarts until the driver is installed, for
    # which it looks only once. Without labels it would restart endlessly on nodes without a GPU.
    env = [{"name": "FAIL_ON_INIT_ERROR", "value": "true" if pool.labels else "false"}]
    pod["containers"][0] |= {"image": image, "env": env}
    if login is None:
        return [namespace, daemon_set]
    pod["imagePullSecrets"] = [{"name": REGISTRY_LOGIN}]
    return [namespace, pull_secret(NAMESPACE, login), daemon_set]


def facts(pool: GpuPool) -> dict[str, Any]:
    """Return a pool as the inputs of `slipway:infra:GpuReady`; empty values are left out."""
    of_jobs = {"interface", "fallback", "cards"}
    found = _POOL.dump_python(pool, mode="json", by_alias=True, exclude=of_jobs)
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def pool_of(facts: Mapping[str, Any]) -> GpuPool:
    """Return the pool that `facts` came from, as far as they describe it."""
    return _POOL.validate_python(facts, strict=False)
