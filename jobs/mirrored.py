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
