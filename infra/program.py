"""The Pulumi program, from the stack's configuration to a trained model."""

import asyncio
from typing import Any

import pulumi

from clusters import support
from clusters.kinds import CLUSTERS
from clusters.operator.training_operator import TrainingOperator
from core.declare import declare_all
from images.resource import TrainerImages
from infra import kept, runs, settings
from infra.cost import estimates
from infra.gpus.component import cuda_output, provide_gpus
from infra.namespace import job_namespace
from infra.runs import RunContext, train
from infra.settings import StackSettings
from infra.tracking.component import track


async def main() -> None:
    """Declare all resources for the current stack's configuration, and export its outputs."""
    exported = declare(settings.load())
    for name, value in exported.items():
        pulumi.export(name, value)
    # Pulumi itself would look at all pending outputs again whenever one is known, which for
    # hundreds of jobs takes as much CPU time as everything else.
    known = [pulumi.Output.from_input(value).future() for value in exported.values()]
    await asyncio.wait(map(asyncio.ensure_future, known), return_when=asyncio.FIRST_EXCEPTION)


def declare(configured: StackSettings) -> dict[str, pulumi.Input[Any]]:
    """Declare all resources for these settings, and return the stack's outputs, keyed by name."""
    kind = CLUSTERS[configured.cluster.kind]
    pools = kind.pools(configured.cluster.options)
    estimates.announce(pools, configured.prices)
    support.announce(kind.kubernetes(configured.cluster.options))
    cluster = kind.provision(configured.cluster.options)
    own = declare_all(cluster.objects, cluster.options())

    images = TrainerImages(cluster.image_target, configured.torch)
    namespace = job_namespace(cluster, may_exec=configured.exec)
    operator = TrainingOperator("training-operator", cluster=cluster, after=[namespace])
    gpus = None
    if cluster.gpus is not None:
        gpus = provide_gpus(cluster, cluster.gpus, after=[namespace])
    is_own = kind.own is not None
    place, volume = kept.keep(
        configured.outputs, cluster, configured.capacity, removed_with_stack=is_own, after=namespace
    )
    tracking, server = track(
        configured.tracking,
        cluster,
        configured.outputs.storage_class,
        removed_with_stack=is_own,
        after=[namespace],
    )
    context = RunContext(
        cluster,
        [namespace, operator.ready, *own, *volume, *server],
        images,
        configured.capacity,
        gpus,
        estimates.of_jobs(configured.jobs, pools, configured.prices),
        kept=place,
        tracking=tracking,
        hook=configured.hook,
        secrets=configured.secrets,
    )
    trained = train(configured.jobs, configured.scripts, context)

    return {
        "cluster": {**cluster.facts, "exec": configured.exec},
        "jobs": runs.results(trained),
        "notRun": runs.not_run(trained),
        "skipped": dict(configured.skipped),
        **({} if gpus is None else {"cuda": cuda_output(gpus.cuda, trained)}),
        "kubeconfig": pulumi.Output.secret(cluster.kubeconfig),
    }
