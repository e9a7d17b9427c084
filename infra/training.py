"""The runs of a stack: what each needs, when it may start, and what judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.capacity import Capacity
from clusters.cluster import Cluster
from images.resource import job_image
from infra import later, tenancy
from infra.declare import declare
from jobs import dependencies, inputs, volumes
from jobs.needs import together
from jobs.placement import makes_room
from jobs.resource import Gate, PyTorchJob
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
        image: The reference of what they run unless they bring their own.
        capacity: What the cluster has for them; None when that can't be told beforehand.
        room: The same, and what all of them need, in words.
    """

    cluster: Cluster
    needs: Sequence[pulumi.Resource]
    image: pulumi.Input[str]
    capacity: Capacity | None
    room: str = ""


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
    inside = ResourceOptions(provider=ground.cluster.provider, depends_on=ground.needs)
    made = [] if script is None else [declare(script.config_map(tenancy.NAME), inside)]
    made += [declare(each, inside) for each in volumes.objects(job, tenancy.NAME)]
    rendered = manifest(
        job,
        namespace=tenancy.NAME,
        service_account=tenancy.JOB_ACCOUNT,
        trainer_image=_image(job, ground),
        script=None if script is None else script.mounted,
        fetching=Fetching(
            ground.image, inputs.lent(job, {name: run.job for name, run in needed.items()})
        ),
    )
    gates = [run.gate for run in needed.values()]
    resource = PyTorchJob(
        job,
        rendered,
        # Not before it is known where to: so it comes after those whose room it needs.
        kubeconfig=later.once_ended(room, ground.cluster.kubeconfig),
        artifacts=_artifacts(job, needed),
        room=ground.room,
        opts=ResourceOptions(depends_on=[*ground.needs, *made, *gates]),
    )
    # Said, because the engine forgets whose result it is when it skips the run.
    gate = Gate(job, result=resource.result, opts=ResourceOptions(depends_on=[resource]))
    return Run(job, resource, gate)


def _artifacts(job: TrainingJob, needed: Mapping[str, Run]) -> Output[dict[str, Any]] | None:
    """Return what the job's inputs are, once the runs that leave them have ended."""
    if not job.inputs:
        return None
    results = {wanted.job: needed[wanted.job].result for wanted in job.inputs.values()}
    return Output.all(**results).apply(lambda known: inputs.found(job, known))


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
