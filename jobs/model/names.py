"""Names and paths in a job's manifest and inside its containers."""

import re

CONTAINER = "pytorch"
"""The container name that the training operator requires."""
INPUTS_CONTAINER = "inputs"
"""The init container that fetches a job's inputs, in each replica."""
JOB_LABEL = "slipway.dev/job"
RUN_LABEL = "slipway.dev/run"
"""The label with the ID of the run that an object belongs to."""
GPU = "nvidia.com/gpu"
THREADS = "OMP_NUM_THREADS"
"""The variable that sets the number of threads per process, for OpenMP and torch."""

USER = "slipway"
"""The name of the user that pods run as, as defined in the trainer image."""
TMP, SHARED_MEMORY, WORK, SCRIPT = "/tmp", "/dev/shm", "/work", "/opt/script"  # noqa: S108
DATA, PACKAGES = "/data", "/opt/slipway"
"""Paths of the data sets and of slipway_trainer in the trainer image."""
OUTPUT_DIR, INPUT_DIR = f"{WORK}/outputs", f"{WORK}/inputs"
OTHER_VOLUMES = "/opt/inputs"
"""The directory where other jobs' volumes are mounted in the container that fetches inputs."""
DATA_CACHE, CACHED_DATA = "slipway-data", "/opt/data"
"""The name of the data cache's volume and claim, and the cache's path in a container."""
OWN_VOLUMES = {"tmp": TMP, "shm": SHARED_MEMORY, "work": WORK, "script": SCRIPT}
"""The volumes that each pod has in addition to the job's own, with their mount paths."""


def literal(text: str, but: str | None = None) -> str:
    """Escape `text` so that Kubernetes expands $(NAME) only for names that match `but`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
    """
    # Every second part is a reference, which stays as it is.
    parts = [text] if but is None else re.split(rf"((?<!\$)\$\((?:{but})\))", text)
    parts[::2] = (re.sub(r"\$(?=[$(])", "$$", part) for part in parts[::2])
    return "".join(parts)


def secret_name(job: str) -> str:
    """Return the name of the Secret with a job's `env` values from the stack's configuration."""
    return f"{job}-env"


def outputs_url(place: str | None, job: str, outputs: str | None) -> str | None:
    """Return the URL of the folder that holds a job's runs.

    Returns None if the stack keeps no files (`place` is None), or if the job sets `outputs`.
    """
    return None if place is None or outputs is not None else f"{place}/outputs/{job}"
