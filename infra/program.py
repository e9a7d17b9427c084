"""What `pulumi up` does, from the stack's configuration to a trained model."""

import pulumi

from clusters import CLUSTERS
from clusters.cluster import Cluster
from images.resource import trainer_image
from infra import settings, tenancy
from infra.tenancy import JobNamespace
from infra.training_operator import TrainingOperator
from jobs.resource import Gate, PyTorchJob
from jobs.spec import TrainingJob, manifest


def main() -> None:
    """Declare everything that the running stack's configuration asks for.

    A cluster; the trainer's image in it; the namespace that jobs run in; the training operator;
    and for each job a run, whose result becomes an output, and a gate, which fails the update
    when the run did not succeed.

    Raises:
        infra.settings.SettingsError: with every problem in the configuration, before
            anything is declared.
    """
    wanted = settings.load()

    cluster = CLUSTERS[wanted.cluster.kind].provision(wanted.cluster.options)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider])

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

    runs = {
        job.name: _train(job, cluster, image.reference, after=operator.ready) for job in wanted.jobs
    }

    pulumi.export("jobs", {name: run.result for name, run in runs.items()})
    pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))


def _train(
    job: TrainingJob, cluster: Cluster, image: pulumi.Input[str], *, after: pulumi.Resource
) -> PyTorchJob:
    """Declare the run of `job` and the gate that fails `pulumi up` when it did not succeed."""
    rendered = manifest(
        job,
        namespace=tenancy.NAME,
        service_account=tenancy.JOB_ACCOUNT,
        trainer_image=image,
    )
    run = PyTorchJob(
        job,
        rendered,
        kubeconfig=cluster.kubeconfig,
        opts=pulumi.ResourceOptions(depends_on=[after]),
    )
    Gate(job.name, result=run.result)
    return run
