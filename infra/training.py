"""The runs of a stack: what each needs, when it may start, and what judges it."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pulumi
from pulumi import Output, ResourceOptions

from clusters.capacity import Capacity
from clusters.cluster import Cluster
from images.resource import job_image
from infra import tenancy
from infra.declare import declare
from jobs import dependencies, inputs, volumes
from jobs.needs import together
from jobs.placement import makes_room
from jobs.resource import Gate, PyTorchJob
from jobs.script import Script
from jobs.spec import TrainingJob, manifest
from jobs.spec.inputs import Fetching
from jobs.wanted import image_of

T = TypeVar("T")


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
        needed = {name: runs[name] for name in dependencies.needs(job)}
        room = [runs[name].result for name in waits[job.name]]
        runs[job.name] = _run(job, scripts.get(job.name), ground, needed, room)
    return {job.name: runs[job.name] for job in jobs}


def results(runs: Mapping[str, Run]) -> pulumi.Input[Mapping[str, Any]]:
    """Return the results of the jobs that ran, by name."""
    found = {name: run.result for name, run in runs.items()}
    if pulumi.runtime.is_dry_run():
        return found  # Those that are known are shown beside those to come.

    def there(known: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
        return {name: result for name, result in known.items() if result is not None}

    return Output.all(**found).apply(there) if found else {}


def not_run(runs: Mapping[str, Run]) -> Output[dict[str, str]]:
    """Return why jobs did not run, by name: those that needed one that did not succeed.

    The engine skips them without a word, so it is also a warning.
    """
    jobs = [run.job for run in runs.values()]
    if not any(map(dependencies.needs, jobs)):
        return Output.from_input({})

    def told(known: Mapping[str, Any]) -> dict[str, str]:
        states = {
            name: None if result is None else str(result["state"])
            for name, result in known["results"].items()
        }
        found = dependencies.not_run(jobs, states, known["passed"])
        for name, reason in found.items():
            pulumi.log.warn(f"job {name} did not run: {reason}")
        return found

    results = {name: run.result for name, run in runs.items()}
    passed = {name: _later(_exists(run.gate)) for name, run in runs.items()}
    return Output.all(results=results, passed=passed).apply(told)


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
        kubeconfig=_once_ended(room, ground.cluster.kubeconfig),
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


def _once_ended(results: Iterable[Output[Any]], value: pulumi.Input[str]) -> Output[str]:
    """Return `value` once there are all `results`, or it is clear that some never will be.

    To the engine this is no dependency: when a run is skipped, what waits for its room is not.
    """

    async def ended() -> None:
        await asyncio.gather(*(result.future() for result in results))

    return Output.all(value, _later(ended())).apply(lambda both: str(both[0]))


async def _exists(resource: pulumi.CustomResource) -> bool:
    """Return whether a resource has come to be: whoever waits for one that failed gets no ID."""
    return bool(await resource.id.future())


def _later(work: Coroutine[Any, Any, T]) -> Output[T]:
    """Return what `work` comes to, which depends on no resource to the engine."""
    future: Awaitable[T] = asyncio.ensure_future(work)
    return Output.from_input(future)


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
