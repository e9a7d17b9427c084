"""What a job is told by which a cloud knows who it is. Pure."""

from dataclasses import replace

from clusters.cluster import JobIdentity
from jobs.spec import TrainingJob


def known_as(job: TrainingJob, identity: JobIdentity | None) -> TrainingJob:
    """Return `job` with the labels of `identity`; what it says itself stays.

    Args:
        job: What to run.
        identity: Who jobs are to the cloud around their cluster; None for nobody.
    """
    if identity is None:
        return job
    return replace(job, labels={**identity.labels, **job.labels})
