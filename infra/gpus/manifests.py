"""Manifests for NVIDIA's device plugin on a pool, and conversion of pools to resource inputs."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clusters.cluster import REGISTRY_LOGIN
from clusters.image_registry import pull_secret
from clusters.nodes import GpuPool
from core.manifests import Manifest, rendered

NAMESPACE = "slipway-gpu"  # only for the device plugin, which needs more rights than others
PLUGIN = "nvidia-device-plugin"  # the DaemonSet's name, and the plugin's image in `Cluster.images`
_POOL = TypeAdapter(GpuPool)


def device_plugin(pool: GpuPool, image: str, login: str | None = None) -> list[Manifest]:
    """Return the plugin's namespace, a pull secret if `login` is set, and the DaemonSet."""
    namespace, daemon_set = rendered(Path(__file__).with_name("device-plugin.yaml"))
    pod = daemon_set["spec"]["template"]["spec"]
    tolerations = [{"operator": "Equal", **asdict(each)} for each in pool.taints]
    placement = {"nodeSelector": dict(pool.labels), "tolerations": tolerations}
    pod |= {key: value for key, value in placement.items() if value}
    # The plugin looks for the driver only once. If labels select nodes with GPUs, it restarts until
    # the driver is installed. Without labels it would restart endlessly on nodes without a GPU.
    env = [{"name": "FAIL_ON_INIT_ERROR", "value": "true" if pool.labels else "false"}]
    pod["containers"][0] |= {"image": image, "env": env}
    if login is None:
        return [namespace, daemon_set]
    pod["imagePullSecrets"] = [{"name": REGISTRY_LOGIN}]
    return [namespace, pull_secret(NAMESPACE, login), daemon_set]


def facts(pool: GpuPool) -> dict[str, Any]:
    """Return a pool as an input for `slipway:infra:GpuReady`, without empty values."""
    of_jobs = {"interface", "fallback", "cards"}
    values = _POOL.dump_python(pool, mode="json", by_alias=True, exclude=of_jobs)
    return {key: value for key, value in values.items() if value not in (None, {}, [])}


def pool_of(facts: Mapping[str, Any]) -> GpuPool:
    """Return the pool that the input `facts` describes; the inverse of `facts()`."""
    return _POOL.validate_python(facts, strict=False)
