"""A job's own image as its cluster gets it. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from jobs.spec import TrainingJob


def mirrored(job: TrainingJob, mirrors: Mapping[str, str]) -> TrainingJob:
    """Return `job` with what stands in for its image there, if anything does.

    Args:
        job: What to run.
        mirrors: Images by digest, by the names that jobs call them.
    """
    if job.image is None or job.image not in mirrors:
        return job
    return replace(job, image=mirrors[job.image])


def pulled_with(job: TrainingJob, secret: str | None) -> TrainingJob:
    """Return `job` with the cluster's own pull Secret beside those that it names.

    A job that names none has that of its account, which Kubernetes leaves out for one that does
    (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/).

    Args:
        job: What to run.
        secret: The cluster's own; None where nodes need none.
    """
    if secret is None or not job.pull_secrets or secret in job.pull_secrets:
        return job
    return replace(job, pull_secrets=(*job.pull_secrets, secret))
