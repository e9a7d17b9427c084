"""The runs of a stack: what each needs, when it may start, and what judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from clusters.capacity import Capacity
from clusters.cluster import Cluster
from images.resource import job_image
from infra import tenancy
from infra.declare import declare
from jobs import volumes
from jobs.placement import waves
from jobs.resource import Gate, PyTorchJob
from jobs.script import Script
from jobs.spec import TrainingJob, manifest
from jobs.wanted import image_of


@dataclass(frozen=True)
class Ground:
    """What all runs of a stack stand on.

    Args:
        cluster: Where they run.
        needs: What is there before them: their namespace, and what runs them.
        image: The reference of what they run unless they bring their own.
        capacity: What the cluster has for them; None when that can't be told beforehand.
    """

    cluster: Cluster
    needs: Sequence[pulumi.Resource]
    image: pulumi.Input[str]
    capacity: Capacity | None


def train(
    jobs: Sequence[TrainingJob], scripts: Mapping[str, Script], ground: Ground
) -> dict[str, PyTorchJob]:
    """Declare the jobs' runs, by name: side by side as far as there is room for them.

    Without room a pod would wait for a node, and the whole job's start would be overdue in vain.
    """
    runs: dict[str, PyTorchJob] = {}
    before: list[PyTorchJob] = []
    for wave in waves(jobs, ground.capacity):
        started = {job.name: _run(job, scripts.get(job.name), ground, after=before) for job in wave}
        runs |= started
        before = list(started.values())
    return runs


def _run(
    job: TrainingJob, script: Script | None, ground: Ground, *, after: Sequence[pulumi.Resource]
) -> PyTorchJob:
    """Declare a run, what it needs, and the gate that fails `pulumi up` when it ends badly."""
    inside = ResourceOptions(provider=ground.cluster.provider, depends_on=ground.needs)
    needed = [] if script is None else [declare(script.config_map(tenancy.NAME), inside)]
    needed += [declare(each, inside) for each in volumes.objects(job, tenancy.NAME)]
    rendered = manifest(
        job,
        namespace=tenancy.NAME,
        service_account=tenancy.JOB_ACCOUNT,
        trainer_image=_image(job, ground),
        script=None if script is None else script.mounted,
    )
    run = PyTorchJob(
        job,
        rendered,
        kubeconfig=ground.cluster.kubeconfig,
        opts=ResourceOptions(depends_on=[*ground.needs, *needed, *after]),
    )
    Gate(job.name, result=run.result, min_accuracy=job.min_accuracy)
    return run


def _image(job: TrainingJob, ground: Ground) -> pulumi.Input[str]:
    own = image_of(job)
    if own is None:
        return ground.image
    built = job_image(
        job.name,
        own.context,
        own.dockerfile,
        target=ground.cluster.image_target,
        trainer=ground.image,
    )
    return built.pinned
