"""A training job as a value, and the PyTorchJob manifest that it stands for.

Pure: the same job always gives the same manifest, whatever the time, host or cluster.

    from jobs.spec import TrainingJob, manifest

    job = TrainingJob(name="mine", script="train.py", workers=3, args=("--epochs", "2"))
"""

from jobs.spec.job import TrainingJob
from jobs.spec.parts import (
    Build,
    Checkpoint,
    Data,
    Elastic,
    JobInput,
    Limits,
    Master,
    SecretKey,
    Toleration,
    Volume,
)
from jobs.spec.pytorchjob import manifest
from jobs.spec.script import Script

__all__ = [
    "Build",
    "Checkpoint",
    "Data",
    "Elastic",
    "JobInput",
    "Limits",
    "Master",
    "Script",
    "SecretKey",
    "Toleration",
    "TrainingJob",
    "Volume",
    "manifest",
]
