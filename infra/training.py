"""The runs of a stack: what each needs, when it may start, and what judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.capacity import Capacity
from clusters.cluster import JOB_ACCOUNT, Cluster
from core import manifests
from core.manifests import Manifest
from images.resource import JobImage
from images.trainers import Trainer, TrainerImages
from infra import outputs
from infra.declare import declare
from jobs import build_files, dependencies, inputs, volumes
from jobs.accelerated import accelerated, wants_gpus
from jobs.identity import known_as
from jobs.mirrored import mirrored, pulled_with
from jobs.needs import together
from jobs.placement import makes_room
from jobs.resource import Claim, Gate, PyTorchJob
from jobs.script import Script
from jobs.spec import TrainingJob, manifest
from jobs.spec.inputs import Fetching
from jobs.wanted import image_of


@dataclass(frozen=True)
class Ground:
    """What all runs of a stack stand on.

    Args:
        cluster: Where they run.
        needs: What is there before them: their namespace, and what runs them.
        images: What they run unless they bring their own.
        capacity: What the cluster has for them; None when that can't be told beforehand.
        gpus: What has to be there besides before those that ask for GPUs.
        room: The capacity, and what all of them need, in words.
    """

    cluster: Cluster
    needs: Sequence[pulumi.Resource]
    images: TrainerImages
    capacity: Capacity | None
    gpus: pulumi.Resource | None = None
    room: str = ""

    def needed(self, job: TrainingJob) -> list[pulumi.Resource]:
        """Return what is there before a job."""
        gpus = [self.gpus] if self.gpus is not None and wants_gpus(job) else []
        return [*self.needs, *gpus]

    def trainer(self, job: TrainingJob, script: Script | None) -> Trainer:
        """Return the trainer's image that is for a job: with CUDA where it gets GPUs."""
        has_gpus = self.cluster.gpus is not None and wants_gpus(job)
        return self.images.for_job(gpus=has_gpus, cifar=uses_cifar10(job, script))

    def fetcher(self, job: TrainingJob, script: Script | None) -> pulumi.Input[str]:
        """Return the image that fetches a job's inputs: its own, where that is a trainer's."""
        if not job.inputs:
            return ""
        brings_own = job.image is not None or job.build is not None
        return (self.images.cpu if brings_own else self.trainer(job, script)).reference


@dataclass(frozen=True)
class Run:
    """A job as the program declared it.

    Args:
        job: What runs.
        resource: Its run.
        gate: What judges it.
    """

    job: TrainingJob
    resource: PyTorchJob
    gate: Gate

    @property
    def result(self) -> Output[Any]:
        """How it ended and what it returned; None when it did not run."""
        return self.resource.result


def train(
    jobs: Sequence[TrainingJob], scripts: Mapping[str, Script], ground: Ground
) -> dict[str, Run]:
    """Declare the jobs' runs, by name: after those that they need, otherwise side by side.

    Where there is no room for all of them some wait until others have ended. Without room a pod
    would wait for a node, and the whole job's start would be overdue in vain.
    """
    runs: dict[str, Run] = {}
    ordered = dependencies.ordered(jobs)
    waits = makes_room(ordered, ground.capacity)
    ground = replace(ground, room=together(jobs, ground.capacity))
    for job in ordered:
        needed = {name: runs[name] for name in dependencies.prerequisites(job)}
        room = [runs[name].result for name in waits[job.name]]
        if room:
            pulumi.log.info(f"{job.name} waits for the room of {', '.join(waits[job.name])}")
        runs[job.name] = _run(job, scripts.get(job.name), ground, needed, room)
    return {job.name: runs[job.name] for job in jobs}


def _run(
    job: TrainingJob,
    script: Script | None,
    ground: Ground,
    needed: Mapping[str, Run],
    room: Sequence[Output[Any]],
) -> Run:
    """Declare a run, what it needs, and the gate that fails `pulumi up` when it ends badly."""
    job = _suited(job, ground.cluster)
    inside = ResourceOptions(provider=ground.cluster.provider, depends_on=ground.needs)
    namespace = ground.cluster.namespace
    claims = [
        Claim(
            manifests.marked(claim),
            kubeconfig=ground.cluster.kubeconfig,
            keep=keep,
            opts=ResourceOptions(depends_on=ground.needs),
        )
        for claim, keep in volumes.sized(job, namespace)
    ]
    made = [*claims, *(declare(each, inside) for each in objects(job, script, namespace))]
    rendered = manifest(
        job,
        namespace=namespace,
        service_account=JOB_ACCOUNT,
        trainer_image=_image(job, script, ground),
        script=None if script is None else script.mounted,
        fetching=Fetching(
            ground.fetcher(job, script),
            inputs.lent(job, {name: run.job for name, run in needed.items()}),
        ),
    )
    gates = [run.gate for run in needed.values()]
    resource = PyTorchJob(
        job,
        rendered,
        # Not before it is known where to: so it comes after those whose room it needs.
        kubeconfig=outputs.once_ended(room, ground.cluster.kubeconfig),
        artifacts=_artifacts(job, needed),
        room=ground.room,
        opts=ResourceOptions(depends_on=[*ground.needed(job), *made, *gates]),
    )
    # Said, because the engine forgets whose result it is when it skips the run.
    gate = Gate(job, result=resource.result, opts=ResourceOptions(depends_on=[resource]))
    return Run(job, resource, gate)


def uses_cifar10(job: TrainingJob, script: Script | None) -> bool:
    """Return whether a job reads CIFAR-10: its declaration or one of its files says `cifar`.

    torchvision's class, the trainer's module and the folder /data/cifar10 are all called so.
    """
    texts = [str(job), *({} if script is None else script.files).values()]
    own = image_of(job)
    if own is not None:
        texts += build_files.read(own.context, own.dockerfile).values()
    return any("cifar" in str(text).lower() for text in texts)


def objects(job: TrainingJob, script: Script | None, namespace: str) -> list[Manifest]:
    """Return what a job's pods need before they can start, in order."""
    files = [] if script is None else [script.config_map(namespace)]
    return [*files, *volumes.objects(job, namespace)]


def _suited(job: TrainingJob, cluster: Cluster) -> TrainingJob:
    """Return `job` with all that its cluster asks of one that is to run there."""
    job = known_as(accelerated(job, cluster.gpus), cluster.identity)
    pull = cluster.pull_secret
    return pulled_with(mirrored(job, cluster.mirrors), None if pull is None else pull.name)


def _artifacts(job: TrainingJob, needed: Mapping[str, Run]) -> Output[dict[str, Any]] | None:
    """Return what the job's inputs are, once the runs that leave them have ended."""
    if not job.inputs:
        return None
    results = {wanted.job: needed[wanted.job].result for wanted in job.inputs.values()}
    return Output.all(**results).apply(lambda known: inputs.found(job, known))


def _image(job: TrainingJob, script: Script | None, ground: Ground) -> pulumi.Input[str]:
    """Return what a job runs, and declare no image that it does not need."""
    if job.image is not None:
        return job.image
    own = image_of(job)
    if own is None:
        return ground.trainer(job, script).reference
    starts_from_trainer = not own.problems() and own.wants_trainer
    built = JobImage(
        own,
        target=ground.cluster.image_target,
        trainer=ground.trainer(job, script).base if starts_from_trainer else "",
    )
    return built.pinned
