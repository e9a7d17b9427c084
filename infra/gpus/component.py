"""Declare the device plugin for a cluster's GPUs, and derive the stack's `cuda` output."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.cluster import REGISTRY_LOGIN, Cluster
from clusters.image_registry import pull_secret
from clusters.nodes import DEVICE_PLUGIN, GpuPool
from core import tokens
from core.declare import declare, if_any
from core.manifests import Manifest, digest, rendered
from infra.gpus import NAMESPACE, PLUGIN
from infra.runs import Run
from jobs.adapt import wants_gpus


class GpuReady(pulumi.CustomResource):
    """A resource that waits until the pool's GPUs are allocatable; see `infra.gpus.gpu_ready`."""

    cuda: Output[dict[str, Any]]
    """The `state` (`verified` once a job has run on a GPU), the `reason`, and the GPU count."""


def provide_gpus(cluster: Cluster, pool: GpuPool, *, after: Sequence[pulumi.Resource]) -> GpuReady:
    """Declare NVIDIA's device plugin, if needed, and a resource that waits for the pool's GPUs."""
    parent = pulumi.ComponentResource(tokens.GPUS, "gpus")
    manifests: list[Manifest] = []
    if pool.device_plugin:
        image = cluster.images.get(PLUGIN, DEVICE_PLUGIN)
        # Pulled from the private registry if that mirrors the image.
        login = cluster.pull_secret if image in cluster.mirrors else None
        manifests = device_plugin(pool, cluster.mirrors.get(image, image), login)
    above = [*after]
    for manifest in manifests:
        above.append(declare(manifest, cluster.options(parent=parent, depends_on=[*above])))
    properties: dict[str, Any] = {
        "kubeconfig": Output.secret(cluster.kubeconfig),
        "pool": pool.as_input(),
        # Changes with the device plugin, so that an update waits for its new pods.
        "rollout": digest([each for each in manifests if each["kind"] != "Secret"]),
        "cuda": None,
    }
    own = ResourceOptions(parent=parent, depends_on=above, additional_secret_outputs=["kubeconfig"])
    ready = GpuReady(tokens.GPU_READY, "gpus", properties, own)
    parent.register_outputs({})
    return ready


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


def cuda_output(ready: Output[dict[str, Any]], runs: Mapping[str, Run]) -> Output[dict[str, Any]]:
    """Return the stack's output `cuda`, derived from the nodes' GPUs and the runs' results."""
    results = {name: if_any(run.result) for name, run in runs.items() if wants_gpus(run.job)}

    def describe(values: Mapping[str, Any]) -> dict[str, Any]:
        verdict = judge_cuda(values["ready"], values["results"])
        # The nodes' state was reported earlier; only a job's result is new.
        if verdict["state"] == "unverified" and verdict != values["ready"]:
            pulumi.log.warn(f"cuda: unverified: {verdict['reason']}")
        return verdict

    return Output.all(ready=if_any(ready), results=results).apply(describe)


def judge_cuda(
    ready: Mapping[str, Any] | None, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Return the value of the stack's output `cuda`, from the nodes' state and the jobs' results.

    `ready`, or a result, is None if the resource that provides it failed or was skipped.
    """
    before = dict(ready or {"state": "unverified", "reason": "the cluster's GPUs are not ready"})
    ran = {name: result for name, result in results.items() if result is not None}
    for name, result in ran.items():
        if result.get("device") == "cuda":
            device = {"device_name": result["device_name"]} if "device_name" in result else {}
            kept = {key: before[key] for key in before if key in {"nodes", "gpus"}}
            return {"state": "verified", "by": f"job {name}", **device, **kept}
    if on_cpu := next((name for name in ran if ran[name].get("device") == "cpu"), None):
        before["reason"] = (
            f"job {on_cpu} requested GPUs but ran on the CPU: the node's GPU capacity is not "
            "real, the job's image lacks CUDA, or the job was started with --no-cuda"
        )
    return before
