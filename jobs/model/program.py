"""What a container runs, the trainer's own programs among it, and its environment. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from core.manifests import MANAGED_BY, Manifest
from jobs.model import inputs
from jobs.model.names import OUTPUT_DIR, RUN_LABEL, SCRIPT, THREADS, TMP, secret_name
from jobs.model.parts import SecretKey
from jobs.model.replicas import Share, roles

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

RANK_PLACEHOLDER = "{rank}"
DEFAULT_ENTRY = "train.py"
ModuleName = Literal["mnist", "cifar", "mnist_elastic", "images"]


@dataclass(frozen=True)
class Module:
    """A program in the trainer's image, which the catalogue runs.

    Args:
        options: The command line's option for each of a job's fields that it takes.
        defaults: The fields' values unless the job has others.
        arguments: Its other arguments, always.
        is_elastic: Whether it goes on when replicas are lost, and needs an elastic job for that.
    """

    options: Mapping[str, str]
    defaults: Mapping[str, Any]
    arguments: tuple[str, ...] = ()
    is_elastic: bool = False


_OPTIONS = {
    "epochs": "--epochs",
    "batch_size": "--batch-size",
    "learning_rate": "--lr",
    "momentum": "--momentum",
    "seed": "--seed",
    "goal": "--goal",
}
_MNIST = {"epochs": 1, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.9, "seed": 1}

MODULES: Mapping[str, Module] = {
    "mnist": Module(_OPTIONS, _MNIST),
    "mnist_elastic": Module(_OPTIONS, _MNIST, is_elastic=True),
    "cifar": Module(
        {**_OPTIONS, "learning_rate": "--learning-rate"},
        {"epochs": 1, "batch_size": 32, "learning_rate": 0.02, "momentum": 0.9, "seed": 1},
        arguments=("--data-dir", "/data/cifar10", "--output-dir", OUTPUT_DIR),
    ),
    "images": Module(_OPTIONS, {**_MNIST, "batch_size": 32}),
}

HYPERPARAMETERS = tuple(_OPTIONS)
"""The fields of a job that only these programs take."""


def program(job: TrainingJob, share: Share, entry: str | None) -> dict[str, Any]:
    """Return a container's command and arguments; of a script `entry` is the file to start.

    Kubernetes fills in $(…) from the environment.
    """
    processes = job.processes_per_node
    launch = ["python3", "-m", "slipway_trainer.launch", "--processes", str(processes), "--"]
    command, args = list(job.command or ()), list(job.args)
    if entry is not None:
        command = [*launch, f"{SCRIPT}/{entry}"]
    if job.module is not None:
        module = MODULES[job.module]
        options = {
            "--backend": job.backend,
            **{option: getattr(job, name) for name, option in module.options.items()},
            "--threads": share.threads(processes),
        }
        given = ((option, str(value)) for option, value in options.items() if value is not None)
        command = [*launch, "-m", f"slipway_trainer.{job.module}"]
        args = [*module.arguments, *chain.from_iterable(given), *args]
    placeholders = {
        # The DNS name of each replica, rank 0's first: the operator's Services have them.
        "{hosts}": ",".join(
            f"{job.name}-{role.lower()}-{index}"
            for role, count in roles(job).items()
            for index in range(count)
        ),
        RANK_PLACEHOLDER: "$(RANK)",
        "{run_id}": "$(SLIPWAY_RUN_ID)",
    }

    def filled(word: str) -> str:
        for placeholder, value in placeholders.items():
            word = word.replace(placeholder, value)
        return word

    written = {"command": command, "args": args}
    return {key: [*map(filled, words)] for key, words in written.items() if words}


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
        *(_variable(job.name, name, value) for name, value in sorted(variables.items())),
    ]


def secrets(job: TrainingJob, namespace: str, values: Mapping[str, str]) -> list[Manifest]:
    """Return the Secret with what `job` has from the stack's configuration; none without any.

    `values` has at least those secrets of the configuration that the job names, in plain text.
    """
    data = {
        name: base64.b64encode(values[each.config].encode()).decode()
        for name, each in job.env.items()
        if isinstance(each, SecretKey) and each.config is not None
    }
    metadata = {"name": secret_name(job.name), "namespace": namespace, "labels": {**MANAGED_BY}}
    # Its name is not one of its content: even a hash of a secret is not for publication.
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    return [secret] if data else []


def _variable(job: str, name: str, value: str | SecretKey) -> dict[str, Any]:
    if isinstance(value, SecretKey):
        reference = {"name": value.secret, "key": value.key}
        if value.config is not None:
            reference = {"name": secret_name(job), "key": name}
        return {"name": name, "valueFrom": {"secretKeyRef": reference}}
    return {"name": name, "value": value}
