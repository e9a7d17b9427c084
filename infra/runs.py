"""The runs of a stack: what each needs, when it may start, what judges it, and their outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.capacity import Capacity
from clusters.cluster import JOB_ACCOUNT, Cluster
from core import manifests
from images.resource import TrainerImages
from infra import outputs
from infra.declare import declare
from jobs import plan
from jobs.adapt import adapt, wants_gpus
from jobs.cost import TrainingCost
from jobs.resource import Claim, Gate, PyTorchJob
from jobs.result import RunResult
from jobs.sources import declare_images
from jobs.spec import Script, TrainingJob, data, inputs, manifest, program, volumes
from jobs.spec.kept import VOLUME_URL, outputs_url


@dataclass(frozen=True)
class RunContext:
    """What all runs of a stack have in common.

    Args:
        cluster: Where they run.
        needs: What is created before them: their namespace and the operator.
        images: What they run unless they bring their own.
        capacity: What the cluster has for them; None when that is not known beforehand.
        gpus: What is also created before those that request GPUs.
        costs: By job, where it is known.
        kept: Where jobs without `outputs` keep their files (`jobs.spec.kept`); None for nowhere.
        secrets: Those of the stack's configuration that jobs name, in plain text.
    """

    cluster: Cluster
    needs: Sequence[pulumi.Resource]
    images: TrainerImages
    capacity: Capacity | None
    gpus: pulumi.Resource | None = None
    costs: Mapping[str, TrainingCost] = field(default_factory=dict)
    kept: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


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
    jobs: Sequence[TrainingJob], scripts: Mapping[str, Script], context: RunContext
) -> dict[str, Run]:
    """Declare the jobs' runs, by name: after those that they need, otherwise side by side.

    Where the cluster has no room for all of them, some wait until others have ended. Otherwise a
    pod would wait for a node, and its job would miss the limit for its start.
    """
    runs: dict[str, Run] = {}
    ordered = plan.ordered(jobs)
    waits = plan.waits(ordered, context.capacity)
    room = plan.summary(jobs, context.capacity)
    if any(waits.values()):
        turns = plan.turns(ordered, waits)
        pulumi.log.info(f"the cluster has no room for all jobs at once; they run in turns: {turns}")
    cache = _data_cache(jobs, context)
    for job in ordered:
        before = {name: runs[name] for name in plan.prerequisites(job)}
        kubeconfig = outputs.once_ended(
            [runs[name].result for name in waits[job.name]], context.cluster.kubeconfig
        )
        runs[job.name] = _declare(
            job, scripts.get(job.name), context, before, kubeconfig, room, cache
        )
    return {job.name: runs[job.name] for job in jobs}


def _declare(  # noqa: PLR0913, PLR0917  # a job and its script, and what is around it
    job: TrainingJob,
    script: Script | None,
    context: RunContext,
    before: Mapping[str, Run],
    kubeconfig: Output[str],
    room: str,
    cache: Claim | None,
) -> Run:
    """Declare a run, what it needs, and the gate that fails `pulumi up` when it ends badly.

    Args:
        job: What runs.
        script: Its files, where it has a script.
        context: Of all runs.
        before: The runs that it needs.
        kubeconfig: The cluster's, known once the runs whose room it needs have ended.
        room: A description of what all jobs of the stack need and the cluster has.
        cache: Keeps the data that jobs fetch.
    """
    cluster, namespace = context.cluster, context.cluster.namespace
    if job.checkpoint is not None and context.kept != VOLUME_URL:
        pulumi.log.warn(
            f"job {job.name}: `checkpoint` is left out, because the stack has no volume for kept "
            "files (docs/checkpoints.md#where-they-are): a retry begins at the beginning"
        )
    job = adapt(job, cluster)
    gpus = [context.gpus] if context.gpus is not None and wants_gpus(job) else []
    image, fetch_image = declare_images(job, script, cluster, context.images)
    objects = [] if script is None else [script.config_map(namespace)]
    objects += volumes.host_volumes(job, namespace)
    objects += map(manifests.marked, program.secrets(job, namespace, context.secrets))
    claims = [
        Claim(
            manifests.marked(claim),
            kubeconfig=cluster.kubeconfig,
            keep=keep,
            opts=ResourceOptions(depends_on=context.needs),
        )
        for claim, keep in volumes.claims(job, namespace)
    ]
    inside = ResourceOptions(provider=cluster.provider, depends_on=context.needs)
    caches = [cache] if cache is not None and data.needs_cache(job) else []
    made = [*claims, *caches, *(declare(each, inside) for each in objects)]
    results = {each.job: before[each.job].result for each in job.inputs.values()}
    artifacts = Output.all(**results).apply(lambda known: inputs.found(job, known))
    resource = PyTorchJob(
        job,
        manifest(
            job,
            namespace=namespace,
            service_account=JOB_ACCOUNT,
            trainer_image=image,
            script=script,
            fetch_image=fetch_image,
            other_volumes=inputs.other_volumes(
                job,
                {name: run.job for name, run in before.items()},
                has_volume=context.kept == VOLUME_URL,
            ),
            keeps_data=cache is not None,
        ),
        kubeconfig=kubeconfig,
        artifacts=artifacts if job.inputs else None,
        kept=_kept(job, context.kept),
        place=context.kept,
        room=room,
        cost=_known(context.costs.get(job.name)),
        opts=ResourceOptions(
            depends_on=[*context.needs, *gpus, *made, *(run.gate for run in before.values())]
        ),
    )
    # An explicit dependency: the engine forgets whose result it is when it skips the run.
    gate = Gate(job, result=resource.result, opts=ResourceOptions(depends_on=[resource]))
    return Run(job, resource, gate)


def _data_cache(jobs: Sequence[TrainingJob], context: RunContext) -> Claim | None:
    """Declare what keeps the data that jobs fetch, where some do and the cluster is one node.

    Most volumes can be mounted on one node at a time: of several nodes each pod fetches its own.
    """
    if context.capacity is None or context.capacity.nodes != 1:
        return None
    if not any(map(data.needs_cache, jobs)):
        return None
    return Claim(
        manifests.marked(data.cache_claim(context.cluster.namespace)),
        kubeconfig=context.cluster.kubeconfig,
        keep=False,
        opts=ResourceOptions(depends_on=context.needs),
    )


def results(runs: Mapping[str, Run]) -> pulumi.Input[Mapping[str, Any]]:
    """Return the results of the jobs that ran, by name; of a failure without its logs."""
    found = {name: run.result.apply(_short) for name, run in runs.items()}
    if pulumi.runtime.is_dry_run():
        return found  # Those that are known are shown beside those to come.

    def existing(known: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
        return {name: result for name, result in known.items() if result is not None}

    return Output.all(**found).apply(existing) if found else {}


def _short(result: dict[str, Any] | None) -> dict[str, Any] | None:
    known = None if result is None else RunResult.of(result)
    if known is None or known.failure is None:
        return result
    # The gate's error and `make results` show these; the outputs would repeat them.
    failure = replace(known.failure, log=None, previous_log=None, events=None)
    return replace(known, failure=failure).as_map()


def not_run(runs: Mapping[str, Run]) -> Output[dict[str, str]]:
    """Return why jobs did not run, by name: those that needed one that did not succeed.

    The engine skips them without a message, so it is also a warning.
    """
    jobs = [run.job for run in runs.values()]
    if not any(map(plan.prerequisites, jobs)):
        return Output.from_input({})

    def reasons(known: Mapping[str, Any]) -> dict[str, str]:
        states = {
            name: None if result is None else str(result["state"])
            for name, result in known["results"].items()
        }
        found = plan.not_run(jobs, states, known["passed"])
        for name, reason in found.items():
            pulumi.log.warn(f"job {name} did not run: {reason}")
        return found

    ended = {name: run.result for name, run in runs.items()}
    passed = {name: outputs.exists(run.gate) for name, run in runs.items()}
    return Output.all(results=ended, passed=passed).apply(reasons)


def _kept(job: TrainingJob, place: str | None) -> str | None:
    """Return where a job's files are kept that says nothing itself."""
    return None if place is None or job.outputs is not None else outputs_url(place, job.name)


def _known(cost: TrainingCost | None) -> dict[str, Any] | None:
    """Return a job's cost as the input of its run, without what is not known."""
    if cost is None:
        return None
    return {key: value for key, value in asdict(cost).items() if value is not None}
