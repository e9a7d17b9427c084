"""What things of a job are called: in its manifest, and inside its containers."""

import re

CONTAINER = "pytorch"
"""The name by which the training operator finds a replica's container."""
INPUTS_CONTAINER = "inputs"
"""The init container that fetches a job's inputs, in each replica."""
JOB_LABEL = "slipway.dev/job"
RUN_LABEL = "slipway.dev/run"
"""On each pod: which submission of the job it belongs to."""
GPU = "nvidia.com/gpu"
THREADS = "OMP_NUM_THREADS"
"""The variable by which OpenMP, and torch with it, knows how many threads a process has."""

USER = "slipway"
"""The name of the user that pods run as, as it is in the trainer's image."""
TMP, SHARED_MEMORY, WORK, SCRIPT = "/tmp", "/dev/shm", "/work", "/opt/script"  # noqa: S108
DATA, PACKAGES = "/data", "/opt/slipway"
"""Where the trainer's image has its data sets and slipway_trainer."""
OUTPUT_DIR, INPUT_DIR = f"{WORK}/outputs", f"{WORK}/inputs"
OTHER_VOLUMES = "/opt/inputs"
"""Where the container that fetches inputs finds volumes of other jobs."""
DATA_CACHE, CACHED_DATA = "slipway-data", "/opt/data"
"""The volume in which a node keeps what jobs' `data` were fetched to, its claim, and its place."""
OWN_VOLUMES = {"tmp": TMP, "shm": SHARED_MEMORY, "work": WORK, "script": SCRIPT}
"""The volumes that each pod has besides the job's, and where they are mounted."""


def literal(text: str, but: str | None = None) -> str:
    """Return `text` so that Kubernetes changes nothing in it but $(NAME) of names that match `but`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
    """
    # Every other part is such a reference.
    parts = [text] if but is None else re.split(rf"((?<!\$)\$\((?:{but})\))", text)
    parts[::2] = (re.sub(r"\$(?=[$(])", "$$", part) for part in parts[::2])
    return "".join(parts)


def secret_name(job: str) -> str:
    """Return the name of the Secret with what a job's `env` has from the stack's configuration."""
    return f"{job}-env"


def outputs_url(place: str | None, job: str, outputs: str | None) -> str | None:
    """Return where each run of a job has its folder; None without a place, or with `outputs`."""
    return None if place is None or outputs is not None else f"{place}/outputs/{job}"
