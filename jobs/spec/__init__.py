"""A training job as a value, and the PyTorchJob manifest that it stands for.

Pure: the same job always gives the same manifest, whatever the time, host or cluster.

    from jobs.spec import TrainingJob, manifest

    job = TrainingJob(name="mine", script="train.py", workers=3, args=("--epochs", "2"))
"""

from jobs.spec.job import TrainingJob as TrainingJob
from jobs.spec.parts import Build as Build
from jobs.spec.parts import Checkpoint as Checkpoint
from jobs.spec.parts import Data as Data
from jobs.spec.parts import Elastic as Elastic
from jobs.spec.parts import JobInput as JobInput
from jobs.spec.parts import Limits as Limits
from jobs.spec.parts import Master as Master
from jobs.spec.parts import SecretKey as SecretKey
from jobs.spec.parts import Toleration as Toleration
from jobs.spec.parts import Volume as Volume
from jobs.spec.pytorchjob import manifest as manifest
from jobs.spec.volumes import Script as Script
