"""The runs of a stack's jobs: dependencies, order, gates and outputs."""

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
"""Within this many seconds, the engine reports the results of runs that need not be repeated."""


@dataclass(frozen=True)
class RunContext:
    """The context shared by all of a stack's runs; a value is None if it is unknown or absent."""

    cluster: Cluster
    needs: Sequence[pulumi.Resource]  # dependencies of each run: the namespace, the operator
    images: TrainerImages  # for jobs without an image
    capacity: Capacity | None  # the cluster's capacity for jobs
    gpus: pulumi.Resource | None = None  # an additional dependency for runs that request GPUs
    costs: Mapping[str, TrainingCost] = field(default_factory=dict)  # by job, if known
    kept: str | None = None  # location for files from jobs without `outputs` (`jobs.model.places`)
    tracking: Mapping[str, str] | None = None  # the tracking server (`jobs.model.submission`)
    hook: Mapping[str, Any] = field(default_factory=dict, repr=False)  # `StackSettings.hook`
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The secrets in the configuration that jobs refer to, in plain text."""


@dataclass(frozen=True)
class Run:
    """A job that the program declared; `result` resolves to None if the job did not run."""

    job: TrainingJob
    result: Output[Any]
    gate: Gate


def train(
    jobs: Sequence[TrainingJob], scripts: Mapping[str, Script], context: RunContext
) -> dict[str, Run]:
    """Declare the jobs' runs, each to start after its prerequisites; return them by job name.

    Jobs that do not fit into the cluster at the same time run one after another, because pods that
    stay pending would exceed the start timeout.
    """
    runs, costs = dict[str, Run](), context.costs
    cache = _data_cache(jobs, context)
    schedule = plan.Schedule(jobs, context.capacity)
    first = {name for job in jobs for name in (*plan.prerequisites(job), *schedule.waits[job.name])}
    for declared in schedule.ordered:
        job = adapt(declared, context.cluster)
        before = {name: runs[name] for name in plan.prerequisites(job)}
        script = scripts.get(job.name)
        after = _needs(job, script, context)
        after += [cache] if cache is not None and inputs.needs_cache(job) else []
        after += [each.gate for each in before.values()]
        submission = _submission(job, script, context, before, keeps_data=cache is not None)
        run = PyTorchJob(
            submission,
            # Known once the runs that take up the capacity have ended.
            kubeconfig=once_ended(
                [runs[name].result for name in schedule.waits[job.name]], context.cluster.kubeconfig
            ),
            cost=asdict(costs[job.name], dict_factory=only_known) if job.name in costs else None,
            pulls=context.cluster.refused_pulls,
            waiter=_waiter(job, first, context),
            hook=context.hook,
            opts=ResourceOptions(depends_on=Output.from_input(_with_images(submission, after))),
        )
        runs[job.name] = Run(job, run.result, Gate(job, run))
    if runs and (any(schedule.waits.values()) or pulumi.runtime.is_dry_run()):
        _ = Output.all(_announce(schedule, runs))
    return {job.name: runs[job.name] for job in jobs}


async def _with_images(
    submission: Submission, resources: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Return `resources` plus the run's images, which must be explicit dependencies.

    If an image can't be built, its output has no value, and the engine ignores the dependency.
    """
    images = Output.all(submission.image, submission.fetch_image)
    return [*resources, *await images.resources()]


async def _announce(schedule: plan.Schedule, runs: Mapping[str, Run]) -> None:
    """Log the jobs' requests, the cluster's capacity, and the order of the jobs that will train."""
    checks = {name: asyncio.ensure_future(run.result.is_known()) for name, run in runs.items()}
    await asyncio.wait(checks.values(), timeout=_IDLE_SECONDS)
    ready = {name: each for name, each in checks.items() if each.done() and not each.exception()}
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
    """Declare a job's images, and return the job's submission."""
    if job.checkpoint is not None and checkpoints_url(job, context.kept) is None:
        pulumi.log.warn(
            f"job {job.name}: `checkpoint` is ignored, because the stack keeps no files. Set its "
            "`url` (docs/checkpoints.md#where-they-are), or a retry starts from the beginning"
        )
    if job.keep and job.outputs is None and context.kept is None:
        pulumi.log.warn(
            f"job {job.name}: `keep` is ignored, because the stack keeps no files. Set the job's "
            "`outputs` (docs/files.md#outputs), or the job's files are lost with its pods"
        )
    image, fetch_image = declare_images(job, script, context.cluster, context.images)
    others = {name: run.job for name, run in before.items()}
    artifacts = None
    if job.inputs:  # they are known once the jobs that produce them have finished
        ended = Output.all(**{each.job: before[each.job].result for each in job.inputs.values()})
        artifacts = ended.apply(lambda results: inputs.input_artifacts(job, results))
    # A renamed job keeps its identity, also for the jobs that read its files.
    origins = {k: replace(each, job=others[each.job].origin) for k, each in job.inputs.items()}
    experiment = {"experiment": f"{pulumi.get_stack()}/{job.name}"}
    return Submission(
        job=replace(job, inputs=origins),
        image=image,
        namespace=context.cluster.namespace,
        fetch_image=fetch_image,
        script=None if script is None else script.mounted,
        input_volumes=inputs.other_volumes(job, others, has_volume=context.kept == VOLUME_URL),
        keeps_data=keeps_data,
        place=context.kept,
        stack=None if checkpoints_url(job, None) is None else manifests.stack(),
        artifacts=artifacts,
        tracking=None if context.tracking is None else {**context.tracking, **experiment},
    )


def _waiter(
    job: TrainingJob, first: Collection[str], context: RunContext
) -> pulumi.Input[str] | None:
    """Declare the image for the pod that watches a job's run; None if `up` waits for the run."""
    is_left = not job.wait if job.wait is not None else bool(os.environ.get(NO_WAIT_VARIABLE))
    if not is_left:
        return None
    if job.name in first:
        pulumi.log.info(f"job {job.name} isn't detached: other jobs start only after it ends")
        return None
    base = context.images.spec()
    try:
        return context.images.of_job(RequirementsSpec.from_file(WAITERS_PACKAGES, base.name), base)
    except NotPrebuilt as error:
        pulumi.log.warn(f"job {job.name}: can't run detached, so this `up` waits for it: {error}")
        return None


def _needs(job: TrainingJob, script: Script | None, context: RunContext) -> list[pulumi.Resource]:
    """Declare the objects that a job needs, and return all resources that its run depends on."""
    cluster, namespace = context.cluster, context.cluster.namespace
    objects = [] if script is None else [script.config_map(namespace)]
    if script is not None and script.left_out:
        pulumi.log.warn(
            f"job {job.name}: these files in the script's folder are left out, because they are "
            f"broken links or their names are not UTF-8: {', '.join(script.left_out)}"
        )
    objects += volumes.host_volumes(job, namespace)
    objects += map(manifests.marked, program.secrets(job, namespace, context.secrets))
    inside = cluster.options(depends_on=context.needs)
    claims = (
        Claim(claim, kubeconfig=cluster.kubeconfig, keep=keep, after=context.needs)
        for claim, keep in volumes.claims(job, namespace)
    )
    gpus = [context.gpus] if context.gpus is not None and wants_gpus(job) else []
    return [*context.needs, *gpus, *claims, *(declare(each, inside) for each in objects)]


def _data_cache(jobs: Sequence[TrainingJob], context: RunContext) -> Claim | None:
    """Declare the cache for fetched data, if the cluster has one node and any job fetches data."""
    cluster, capacity = context.cluster, context.capacity
    # Most volumes can be mounted on only one node; with several nodes, each pod fetches the data.
    if capacity is None or capacity.nodes != 1 or not any(map(inputs.needs_cache, jobs)):
        return None
    claim = inputs.cache_claim(cluster.namespace)
    return Claim(claim, kubeconfig=cluster.kubeconfig, after=context.needs)


def results(runs: Mapping[str, Run]) -> pulumi.Input[Mapping[str, Any]]:
    """Return the results of the jobs that ran, keyed by job name, with logs removed."""
    if pulumi.runtime.is_dry_run():  # A preview shows known results and unknown ones.
        return {name: run.result.apply(_short) for name, run in runs.items()}
    short = {name: if_any(run.result).apply(_short) for name, run in runs.items()}
    return Output.all(**short).apply(lambda values: only_known(values.items())) if short else {}


def _short(result: dict[str, Any] | None) -> dict[str, Any] | None:
    if result is None or (parsed := RunResult.from_map(result)).failure is None:
        return result
    # The gate's error and `make results` already show them.
    failure = replace(parsed.failure, log=None, previous_log=None, events=None)
    return replace(parsed, failure=failure).as_map()


def not_run(runs: Mapping[str, Run]) -> Output[dict[str, str]]:
    """Return the reasons why jobs did not run, keyed by job name, and log them as warnings.

    The engine itself prints nothing about the jobs that it skips.
    """
    jobs = [run.job for run in runs.values()]
    if pulumi.runtime.is_dry_run() or not any(map(plan.prerequisites, jobs)):
        return Output.from_input({})

    def reasons(values: Mapping[str, Any]) -> dict[str, str]:
        states = {
            name: None if result is None else str(result["state"])
            for name, result in values["results"].items()
        }
        passed = {name: job is not None for name, job in values["gates"].items()}
        skipped = plan.not_run(jobs, states, passed)
        for name, reason in skipped.items():
            pulumi.log.warn(f"job {name} did not run: {reason}")
        return skipped

    ended = {name: if_any(run.result) for name, run in runs.items()}
    gates = {name: if_any(run.gate.job) for name, run in runs.items()}
    return Output.all(results=ended, gates=gates).apply(reasons)
