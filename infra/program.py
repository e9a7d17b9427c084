"""What `pulumi up` does, from the stack's configuration to a trained model."""

import pulumi

from clusters import CLUSTERS
from images.resource import trainer_image
from infra import outcomes, settings, tenancy
from infra.tenancy import JobNamespace
from infra.training import Ground, train
from infra.training_operator import TrainingOperator


def main() -> None:
    """Declare everything that the running stack's configuration asks for.

    A cluster; the trainer's image in it; the namespace that jobs run in; the training operator;
    and for each job what it needs, a run, whose result becomes an output, and a gate, which fails
    the update when the run did not succeed.

    Raises:
        infra.settings.SettingsError: with every problem in the configuration, before
            anything is declared.
    """
    wanted = settings.load()
    for warning in wanted.warnings:
        pulumi.log.warn(str(warning))

    cluster = CLUSTERS[wanted.cluster.kind].provision(wanted.cluster.options)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider], depends_on=cluster.needs)

    image = trainer_image(cluster.image_target)
    namespace = JobNamespace("jobs", opts=on_cluster)
    operator = TrainingOperator(
        "training-operator",
        cluster=cluster,
        job_namespace=tenancy.NAME,
        opts=pulumi.ResourceOptions.merge(
            on_cluster, pulumi.ResourceOptions(depends_on=[namespace])
        ),
    )

    ground = Ground(cluster, [namespace, operator.ready], image.reference, wanted.capacity)
    runs = train(wanted.jobs, wanted.scripts, ground)

    pulumi.export("jobs", outcomes.results(runs))
    pulumi.export("notRun", outcomes.not_run(runs))
    pulumi.export("skipped", dict(wanted.skipped))
    pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
