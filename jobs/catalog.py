"""The demos: a new one is one entry here."""

from collections.abc import Mapping

from jobs.spec import TrainingJob

CATALOG: Mapping[str, TrainingJob] = {
    job.name: job
    for job in (
        TrainingJob(name="mnist-gloo", module="mnist", backend="gloo", workers=3),
        TrainingJob(name="mnist-nccl", module="mnist", backend="nccl", workers=1),
    )
}
