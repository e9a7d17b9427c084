"""The cluster's GPUs in a Pulumi program: what makes them usable, and whether they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from clusters.cluster import JOB_ACCOUNT, Cluster
from clusters.pools import DEVICE_PLUGIN, GpuPool
from core.manifests import Manifest
from images.trainers import TrainerImages
from infra.declare import declare
from infra.gpus.manifests import NAMESPACE, PLUGIN, device_plugin, facts
from infra.pulling import secret
from jobs.accelerated import wants_gpus
from jobs.spec import TrainingJob


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
        cluster: Where.
        images: The trainer's. The one for GPUs is asked for only where one is tried beforehand and
            a job needs it: it takes several GB.
        jobs: Of the stack.
        after: What has to be there before: the jobs' namespace.
        opts: Its provider.
    """
    if cluster.gpus is None:
        return None
    is_tried = cluster.gpus.min_nodes > 0 and any(map(wants_gpus, jobs))
    image = images.cuda.reference if is_tried else None
    return Gpus("gpus", cluster=cluster, pool=cluster.gpus, image=image, after=after, opts=opts)


class Gpus(pulumi.ComponentResource):
    """NVIDIA's device plugin, where nobody else installs it, and the proof that a GPU calculates.

    Args:
        cluster: Where; its images may have another reference of the plugin's image.
        pool: Its nodes with GPUs.
        image: The trainer's for GPUs; None where no job of the stack needs it.
        after: What has to be there before; see `TrainingOperator`.
    """

    cuda: Output[dict[str, Any]]
    """`state`: verified or unverified, with what is known of the GPUs or the `reason`."""

    def __init__(  # noqa: PLR0913 - all but the name by name
        self,
        name: str,
        *,
        cluster: Cluster,
        pool: GpuPool,
        image: Input[str] | None,
        after: Sequence[pulumi.Resource],
        opts: ResourceOptions,
    ) -> None:
        super().__init__("slipway:infra:Gpus", name, None, opts)
        child = ResourceOptions(parent=self, depends_on=list(after))
        manifests = []
        if pool.device_plugin:
            manifests = _plugin(pool, cluster)
        made: list[pulumi.Resource] = []
        for manifest in manifests:
            earlier = ResourceOptions(depends_on=list(made))
            made.append(declare(manifest, ResourceOptions.merge(child, earlier)))
        ready = GpuReady(
            name,
            cluster=cluster,
            pool=pool,
            image=image,
            rollout=_digest([each for each in manifests if each["kind"] != "Secret"]),
            opts=ResourceOptions.merge(child, ResourceOptions(depends_on=made)),
        )
        self.cuda = ready.cuda
        self.register_outputs({})


class GpuReady(pulumi.CustomResource):
    """Created once the pool's GPUs are offered and one was tried; see `infra.gpus.handler`.

    Args:
        rollout: Changes with the device plugin, so that its new pods are waited for.
    """

    cuda: Output[dict[str, Any]]

    def __init__(  # noqa: PLR0913 - all but the name by name
        self,
        name: str,
        *,
        cluster: Cluster,
        pool: GpuPool,
        image: Input[str] | None,
        rollout: str,
        opts: ResourceOptions,
    ) -> None:
        kubeconfig: Output[str] = Output.secret(cluster.kubeconfig)
        properties = {
            "kubeconfig": kubeconfig,
            "namespace": cluster.namespace,
            "account": JOB_ACCOUNT,
            "pool": facts(pool),
            "image": image,
            "rollout": rollout,
            "cuda": None,
        }
        own = ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(
            "slipway:infra:GpuReady", name, properties, ResourceOptions.merge(opts, own)
        )


def _plugin(pool: GpuPool, cluster: Cluster) -> list[Manifest]:
    """Return the device plugin, out of a private registry where that has it."""
    image = cluster.images.get(PLUGIN, DEVICE_PLUGIN)
    if image not in cluster.mirrors:
        return device_plugin(pool, image)
    pull, mirror = cluster.pull_secret, cluster.mirrors[image]
    if pull is None:
        return device_plugin(pool, mirror)
    namespace, *others = device_plugin(pool, mirror, pull.name)
    return [namespace, secret(NAMESPACE, pull), *others]


def _digest(manifests: list[Manifest]) -> str:
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()[:12]
