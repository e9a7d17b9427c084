"""The cluster's GPUs in a Pulumi program: what makes them usable, and whether they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from clusters.cluster import JOB_ACCOUNT, Cluster
from clusters.pools import DEVICE_PLUGIN, GpuPool
from core.manifests import Manifest, digest
from images.resource import TrainerImages
from infra.declare import declare
from infra.gpus.manifests import NAMESPACE, PLUGIN, device_plugin, facts
from infra.namespace import pull_secret
from jobs.adapt import wants_gpus
from jobs.spec import TrainingJob

if TYPE_CHECKING:
    from infra.runs import Run


def gpus_of(
    cluster: Cluster,
    images: TrainerImages,
    jobs: Sequence[TrainingJob],
    *,
    after: Sequence[pulumi.Resource],
    opts: ResourceOptions,
) -> Gpus | None:
    """Declare what makes a cluster's GPUs usable; None on one without.

    Args:
        cluster: Where; its images may have another reference of the device plugin's image.
        images: The trainer's. The one for GPUs is requested only if a GPU is tested beforehand and
            a job needs it: it takes several GB.
        jobs: Of the stack.
        after: What has to exist first: the jobs' namespace.
        opts: Its provider.
    """
    if cluster.gpus is None:
        return None
    is_tried = cluster.gpus.min_nodes > 0 and any(map(wants_gpus, jobs))
    image = images.cuda.reference if is_tried else None
    return Gpus(cluster, cluster.gpus, image, ResourceOptions(depends_on=list(after)), opts)


class Gpus(pulumi.ComponentResource):
    """NVIDIA's device plugin, unless installed otherwise, and the proof that a GPU computes."""

    cuda: Output[dict[str, Any]]
    """`state`: verified or unverified, with what is known of the GPUs or the `reason`."""

    def __init__(
        self,
        cluster: Cluster,
        pool: GpuPool,
        image: Input[str] | None,
        after: ResourceOptions,
        opts: ResourceOptions,
    ) -> None:
        super().__init__("slipway:infra:Gpus", "gpus", None, opts)
        child = ResourceOptions.merge(ResourceOptions(parent=self), after)
        manifests = _plugin(pool, cluster) if pool.device_plugin else []
        made: list[pulumi.Resource] = []
        for manifest in manifests:
            earlier = ResourceOptions(depends_on=list(made))
            made.append(declare(manifest, ResourceOptions.merge(child, earlier)))
        properties: dict[str, Any] = {
            "kubeconfig": Output.secret(cluster.kubeconfig),
            "namespace": cluster.namespace,
            "account": JOB_ACCOUNT,
            "pool": facts(pool),
            "image": image,
            # Changes with the device plugin, so that its new pods are waited for.
            "rollout": digest([each for each in manifests if each["kind"] != "Secret"]),
            "cuda": None,
        }
        own = ResourceOptions(depends_on=made, additional_secret_outputs=["kubeconfig"])
        whole = ResourceOptions.merge(child, own)
        self.cuda = GpuReady("slipway:infra:GpuReady", "gpus", properties, whole).cuda
        self.register_outputs({})


class GpuReady(pulumi.CustomResource):
    """Created once the pool's GPUs are offered and one was tried; see `infra.gpus.handler`."""

    cuda: Output[dict[str, Any]]


def cuda_output(tried: Output[dict[str, Any]], runs: Mapping[str, Run]) -> Output[dict[str, Any]]:
    """Return the stack's output `cuda`.

    Args:
        tried: What the pod found (`Gpus.cuda`).
        runs: The stack's, by name; the results of those with GPUs count as well.
    """
    results = {name: run.result for name, run in runs.items() if wants_gpus(run.job)}

    def describe(known: Mapping[str, Any]) -> dict[str, Any]:
        found = judge_cuda(known["tried"], known["results"])
        # Only what a job found is new; the rest was reported when it was observed.
        if found["state"] == "unverified" and found != known["tried"]:
            pulumi.log.warn(f"cuda: unverified: {found['reason']}")
        return found

    return Output.all(tried=tried, results=results).apply(describe)


def judge_cuda(
    tried: Mapping[str, Any] | None, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Return whether GPUs are known to calculate, and by what; otherwise why not. Pure.

    Args:
        tried: What the pod found; None when no pod ran, for a reason that is reported elsewhere.
        results: Of the jobs that request GPUs; None of one that did not run.
    """
    before = dict(tried or {"state": "unverified", "reason": "no GPU was tested"})
    if before["state"] == "verified":
        return before
    ran = {name: result for name, result in results.items() if result is not None}
    for name, result in ran.items():
        if result.get("device") == "cuda":
            device = {"device_name": result["device_name"]} if "device_name" in result else {}
            kept = {key: before[key] for key in before if key in {"nodes", "gpus"}}
            return {"state": "verified", "by": f"job {name}", **device, **kept}
    if on_cpu := next((name for name in ran if ran[name].get("device") == "cpu"), None):
        before["reason"] = (
            f"job {on_cpu} was given GPUs and ran on the CPU: the capacity is not real, its "
            "image has no CUDA, or it was started with --no-cuda"
        )
    return before


def _plugin(pool: GpuPool, cluster: Cluster) -> list[Manifest]:
    """Return the device plugin, out of a private registry where that has it."""
    image = cluster.images.get(PLUGIN, DEVICE_PLUGIN)
    if image not in cluster.mirrors:
        return device_plugin(pool, image)
    pull, mirror = cluster.pull_secret, cluster.mirrors[image]
    if pull is None:
        return device_plugin(pool, mirror)
    namespace, *others = device_plugin(pool, mirror, pull.name)
    return [namespace, pull_secret(NAMESPACE, pull), *others]
