"""The demos: a new one is one entry here. Each fits a machine with 2 cores and 6 GB."""

from collections.abc import Mapping

from jobs.spec import Elastic, TrainingJob

_MNIST = 0.97
_IMAGES = {"fashion-mnist-as-cifar10": 0.55, "cifar10": 0.15}
_CIFAR = {"fashion-mnist-as-cifar10": 0.84, "cifar10": 0.4}
"""Accuracies that a right trainer surely reaches, and a broken one misses: docs/benchmarks.md.

CIFAR-10 itself was on no machine where this was measured; its number only separates training from
none.
"""

CATALOG: Mapping[str, TrainingJob] = {
    job.name: job
    for job in (
        TrainingJob(
            name="mnist-gloo", module="mnist", workers=3, memory="768Mi", min_accuracy=_MNIST
        ),
        TrainingJob(
            name="mnist-nccl", module="mnist", backend="nccl", cpu="2", min_accuracy=_MNIST
        ),
        TrainingJob(name="cifar-gloo", module="cifar", cpu="800m", min_accuracy=_CIFAR),
        TrainingJob(
            name="cifar-nccl", module="cifar", backend="nccl", cpu="2", min_accuracy=_CIFAR
        ),
        TrainingJob(
            name="images-gloo",
            module="images",
            cpu="800m",
            memory="1536Mi",
            min_accuracy=_IMAGES,
        ),
        TrainingJob(
            name="mnist-elastic",
            module="mnist_elastic",
            workers=3,
            cpu="500m",
            memory="768Mi",
            elastic=Elastic(min_replicas=2, max_replicas=3),
            min_accuracy=_MNIST,
        ),
        TrainingJob(
            name="cifar-single-node",
            module="cifar",
            workers=0,
            processes_per_node=2,
            cpu="1600m",
            memory="2Gi",
            min_accuracy=_CIFAR,
        ),
    )
}
