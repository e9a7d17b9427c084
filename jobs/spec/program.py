"""What a container runs, and the environment that it finds."""

from __future__ import annotations

from typing import Any

from jobs.spec import inputs
from jobs.spec.job import TrainingJob
from jobs.spec.modules import MODULES
from jobs.spec.names import OUTPUT_DIR, RUN_LABEL, SCRIPT, THREADS, TMP
from jobs.spec.parts import SecretKey
from jobs.spec.replicas import Share, roles

RANK_PLACEHOLDER = "{rank}"
DEFAULT_ENTRY = "train.py"


def program(job: TrainingJob, share: Share, entry: str | None) -> dict[str, Any]:
    """Return a container's command and arguments.

    Args:
        job: What to run.
        share: What the container has.
        entry: Of a job's script, the file that is started, relative to the script's folder.
    """
    command, args = list(job.command or ()), list(job.args)
    if job.module is not None:
        command, args = _of_catalogue(job, share)
    if entry is not None:
        command = [*_launch(job), f"{SCRIPT}/{entry}"]
    written = {"command": command, "args": args}
    return {key: [_filled(word, job) for word in words] for key, words in written.items() if words}


def environment(job: TrainingJob, share: Share) -> list[dict[str, Any]]:
    """Return a container's variables, besides those that the training operator sets."""
    variables: dict[str, str | SecretKey] = {
        "HOME": TMP,
        THREADS: str(share.threads(job.processes_per_node)),
        "SLIPWAY_JOB": job.name,
        "SLIPWAY_OUTPUT_DIR": OUTPUT_DIR,
        **({} if job.outputs is None else {"SLIPWAY_OUTPUTS": job.outputs}),
        **inputs.environment(job),
        # Of several processes each gets its own from torchrun.
        **({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} if job.processes_per_node == 1 else {}),
        **job.env,
    }
    run_id = {"fieldRef": {"fieldPath": f"metadata.labels['{RUN_LABEL}']"}}
    # Lightning takes its rank from RANK only where this shows that torchrun has set it.
    of_torchrun = ["TORCHELASTIC_RUN_ID"] if job.processes_per_node == 1 and not job.elastic else []
    return [
        *({"name": name, "valueFrom": run_id} for name in ("SLIPWAY_RUN_ID", *of_torchrun)),
        *(_variable(name, value) for name, value in sorted(variables.items())),
    ]


def hosts(job: TrainingJob) -> list[str]:
    """Return the DNS name of each replica, rank 0's first: the operator's Services have them."""
    return [
        f"{job.name}-{role.lower()}-{index}"
        for role, count in roles(job).items()
        for index in range(count)
    ]


def _of_catalogue(job: TrainingJob, share: Share) -> tuple[list[str], list[str]]:
    module = MODULES[str(job.module)]
    options = {
        "--backend": job.backend,
        **{option: getattr(job, name) for name, option in module.options.items()},
        "--threads": share.threads(job.processes_per_node),
    }
    words = [
        word
        for option, value in options.items()
        if value is not None
        for word in (option, str(value))
    ]
    command = [*_launch(job), "-m", f"slipway_trainer.{job.module}"]
    return command, [*module.arguments, *words, *job.args]


def _launch(job: TrainingJob) -> list[str]:
    processes = str(job.processes_per_node)
    return ["python3", "-m", "slipway_trainer.launch", "--processes", processes, "--"]


def _filled(word: str, job: TrainingJob) -> str:
    """Fill in what is known before the start; Kubernetes fills in $(…) from the environment."""
    known = {
        "{hosts}": ",".join(hosts(job)),
        RANK_PLACEHOLDER: "$(RANK)",
        "{run_id}": "$(SLIPWAY_RUN_ID)",
    }
    for placeholder, value in known.items():
        word = word.replace(placeholder, value)
    return word


def _variable(name: str, value: str | SecretKey) -> dict[str, Any]:
    if isinstance(value, SecretKey):
        reference = {"name": value.secret, "key": value.key}
        return {"name": name, "valueFrom": {"secretKeyRef": reference}}
    return {"name": name, "value": value}
