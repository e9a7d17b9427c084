"""The runs of a stack: what each needs, when it may start, what judges it, and their outputs."""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.cluster import Cluster
from clusters.nodes import Capacity
from core import manifests
from core.context import NO_WAIT_VARIABLE
from core.declare import declare, if_any, once_ended
from images.build.job import RequirementsSpec
from images.resource import NotPrebuilt, TrainerImages
from jobs import plan
from jobs.adapt import adapt, wants_gpus
from jobs.model import inputs, program, volumes
from jobs.model.job import TrainingJob
from jobs.model.places import VOLUME_URL, checkpoints_url
from jobs.model.submission import Submission
from jobs.model.volumes import Script
from jobs.plan import TrainingCost
from jobs.result import RunResult, only_known
from jobs.run.resource import WAITERS_PACKAGES, Claim, Gate, PyTorchJob
from jobs.sources import declare_images

_IDLE_SECONDS = 15.0
"""In that time the engine finds that a run need not be repeated: its result is there."""


@dataclass(frozen=True)
class RunContext:
    """What all runs of a stack have in common; None is what is not known, or is not there."""

    cluster: Cluster
    needs: Sequence[pulumi.Resource]  # what is created before them: their namespace, the operator
    images: TrainerImages  # what they run unless they bring their own
    capacity: Capacity | None  # what the cluster has for them
    gpus: pulumi.Resource | None = None  # what is also created before those that request GPUs
    costs: Mapping[str, TrainingCost] = field(default_factory=dict)  # by job, where it is known
    kept: str | None = None  # where jobs without `outputs` keep their files (`jobs.model.places`)
    tracking: Mapping[str, str] | None = None  # what runs are sent to (`jobs.model.submission`)
    hook: Mapping[str, Any] = field(default_factory=dict, repr=False)  # `StackSettings.hook`
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the stack's configuration that jobs name, in plain text."""


@dataclass(frozen=True)
class Run:
    """A job as the program declared it; its result is None when it did not run."""

    job: TrainingJob
    result: Output[Any]
    gate: Gate


def train(
    jobs: Sequence[TrainingJob], scripts: Mapping[str, Script], context: RunContext
) -> dict[str, Run]:
    """Declare the jobs' runs, by name: after those that they need, otherwise side by side.

    Without room for all, some wait: pods that waited for a node would miss the limit for a start.
    """
    runs, costs = dict[str, Run](), context.costs
    needed = {name for job in jobs for name in plan.prerequisites(job)}
    cache = _data_cache(jobs, context)
    schedule = plan.Schedule(jobs, context.capacity)
    for declared in schedule.ordered:
        job = adapt(declared, context.cluster)
        before = {name: runs[name] for name in plan.prerequisites(job)}
        script = scripts.get(job.name)
        made = _needs(job, script, context)
        made += [cache] if cache is not None and inputs.needs_cache(job) else []
        made += [each.gate for each in before.values()]
        submission = _submission(job, script, context, before, keeps_data=cache is not None)
        run = PyTorchJob(
            submission,
            # Known once the runs whose room it needs have ended.
            kubeconfig=once_ended(
                [runs[name].result for name in schedule.waits[job.name]], context.cluster.kubeconfig
            ),
            cost=asdict(costs[job.name], dict_factory=only_known) if job.name in costs else None,
            pulls=context.cluster.refused_pulls,
            waiter=_waiter(job, needed, context),
            hook=context.hook,
            opts=ResourceOptions(depends_on=Output.from_input(_with_images(submission, made))),
        )
        runs[job.name] = Run(job, run.result, Gate(job, run))
    if runs and (any(schedule.waits.values()) or pulumi.runtime.is_dry_run()):
        _ = Output.all(_announce(schedule, runs))
    return {job.name: runs[job.name] for job in jobs}


async def _with_images(
    submission: Submission, made: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Return `made` and what makes a run's images, which the engine forgets where one fails."""
    images = Output.all(submission.image, submission.fetch_image)
    return [*made, *await images.resources()]


async def _announce(schedule: plan.Schedule, runs: Mapping[str, Run]) -> None:
    """Log what the jobs need, what the cluster has, and the turns of those that are to train."""
    known = {name: asyncio.ensure_future(run.result.is_known()) for name, run in runs.items()}
    await asyncio.wait(known.values(), timeout=_IDLE_SECONDS)
    ready = {name: each for name, each in known.items() if each.done() and not each.exception()}
    idle = [name for name, each in ready.items() if each.result()]
    if room := schedule.text(idle):
        pulumi.log.info(room)


def _submission(
    job: TrainingJob,
    script: Script | None,
    context: RunContext,
    before: Mapping[str, Run],
    *,
    keeps_data: bool,
) -> Submission:
    """Return what is submitted for a job, whose images are declared."""
    if job.checkpoint is not None and checkpoints_url(job, context.kept) is None:
        pulumi.log.warn(
            f"job {job.name}: `checkpoint` is left out, because the stack keeps no files. Give it "
            "a `url` (docs/checkpoints.md#where-they-are), or a retry begins at the beginning"
        )
    if job.keep and job.outputs is None and context.kept is None:
        pulumi.log.warn(
            f"job {job.name}: `keep` is left out, because the stack keeps no files. Give the job "
            "`outputs` (docs/files.md#outputs), or what it writes is lost with its pods"
        )
    image, fetch_image = declare_images(job, script, context.cluster, context.images)
    others = {name: run.job for name, run in before.items()}
    experiment = {"experiment": f"{pulumi.get_stack()}/{job.name}"}
    return Submission(
        job=job,
        image=image,
        namespace=context.cluster.namespace,
        fetch_image=fetch_image,
        script=None if script is None else script.mounted,
        input_volumes=inputs.other_volumes(job, others, has_volume=context.kept == VOLUME_URL),
        keeps_data=keeps_data,
        place=context.kept,
        stack=None if checkpoints_url(job, None) is None else manifests.stack(),
        artifacts=_artifacts(job, before),
        tracking=None if context.tracking is None else {**context.tracking, **experiment},
    )


def _waiter(
    job: TrainingJob, needed: Collection[str], context: RunContext
) -> pulumi.Input[str] | None:
    """Declare the image of what waits for a job in its cluster; None where `up` waits itself."""
    is_left = job.wait is None and os.environ.get(NO_WAIT_VARIABLE) and job.name not in needed
    if job.wait is not False and not is_left:
        return None
    base = context.images.spec()
    try:
        return context.images.of_job(RequirementsSpec.from_file(WAITERS_PACKAGES, base.name), base)
    except NotPrebuilt as error:
        pulumi.log.warn(f"job {job.name} is waited for by this `up` all the same: {error}")
        return None


def _needs(job: TrainingJob, script: Script | None, context: RunContext) -> list[pulumi.Resource]:
    """Declare a job's objects, and return all that has to exist before it runs."""
    cluster, namespace = context.cluster, context.cluster.namespace
    objects = [] if script is None else [script.config_map(namespace)]
    if script is not None and script.left_out:
        pulumi.log.warn(
            f"job {job.name}: {', '.join(script.left_out)} in its folder is left out: a link that "
            "leads to nothing, or no name in UTF-8"
        )
    objects += volumes.host_volumes(job, namespace)
    objects += map(manifests.marked, program.secrets(job, namespace, context.secrets))
    inside = ResourceOptions(provider=cluster.provider, depends_on=context.needs)
    claims = (
        Claim(claim, kubeconfig=cluster.kubeconfig, keep=keep, after=context.needs)
        for claim, keep in volumes.claims(job, namespace)
    )
    gpus = [context.gpus] if context.gpus is not None and wants_gpus(job) else []
    return [*context.needs, *gpus, *claims, *(declare(each, inside) for each in objects)]


def _artifacts(job: TrainingJob, before: Mapping[str, Run]) -> Output[dict[str, Any]] | None:
    """Return what a job's inputs are, once the jobs that leave them have ended."""
    if not job.inputs:
        return None
    results = {each.job: before[each.job].result for each in job.inputs.values()}
    return Output.all(**results).apply(lambda known: inputs.input_artifacts(job, known))


def _data_cache(jobs: Sequence[TrainingJob], context: RunContext) -> Claim | None:
    """Declare what keeps the data that jobs fetch, where some do and the cluster is one node."""
    cluster, capacity = context.cluster, context.capacity
    # Most volumes can be mounted on one node at a time: of several nodes each pod fetches its own.
    if capacity is None or capacity.nodes != 1 or not any(map(inputs.needs_cache, jobs)):
        return None
    claim = inputs.cache_claim(cluster.namespace)
    return Claim(claim, kubeconfig=cluster.kubeconfig, after=context.needs)


def results(runs: Mapping[str, Run]) -> pulumi.Input[Mapping[str, Any]]:
    """Return the results of the jobs that ran, by name; of a failure without its logs."""
    if pulumi.runtime.is_dry_run():  # Those that are known are shown beside those to come.
        return {name: run.result.apply(_short) for name, run in runs.items()}
    found = {name: if_any(run.result).apply(_short) for name, run in runs.items()}
    return Output.all(**found).apply(lambda known: only_known(known.items())) if found else {}


def _short(result: dict[str, Any] | None) -> dict[str, Any] | None:
    known = None if result is None else RunResult.from_map(result)
    if known is None or known.failure is None:
        return result
    # The gate's error and `make results` show these; the outputs would repeat them.
    failure = replace(known.failure, log=None, previous_log=None, events=None)
    return replace(known, failure=failure).as_map()


def not_run(runs: Mapping[str, Run]) -> Output[dict[str, str]]:
    """Return why jobs did not run, by name, and warn: the engine skips them without a message."""
    jobs = [run.job for run in runs.values()]
    if pulumi.runtime.is_dry_run() or not any(map(plan.prerequisites, jobs)):
        return Output.from_input({})

    def reasons(known: Mapping[str, Any]) -> dict[str, str]:
        states = {
            name: None if result is None else str(result["state"])
            for name, result in known["results"].items()
        }
        passed = {name: job is not None for name, job in known["gates"].items()}
        found = plan.not_run(jobs, states, passed)
        for name, reason in found.items():
            pulumi.log.warn(f"job {name} did not run: {reason}")
        return found

    ended = {name: if_any(run.result) for name, run in runs.items()}
    gates = {name: if_any(run.gate.job) for name, run in runs.items()}
    return Output.all(results=ended, gates=gates).apply(reasons)
