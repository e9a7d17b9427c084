"""A job's replicas: each role's count, requests, command line and environment."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from core.fields import cores, size
from core.manifests import Manifest, owned
from jobs.model import inputs, names
from jobs.model.fields import TAKEN
from jobs.model.names import GPU, OUTPUT_DIR, RUN_LABEL, SCRIPT, THREADS, TMP, literal, secret_name
from jobs.model.parts import MODULES, Limits, Master, SecretKey
from jobs.model.pytorchjob import host

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

Role = Literal["Master", "Worker"]
_RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)
RANK_PLACEHOLDER = "{rank}"
RUN_ID = "SLIPWAY_RUN_ID"
"""The variable with the run's ID. It is set first, so that the job's variables can refer to it."""
DEFAULT_ENTRY = "train.py"
_GIVEN = "|".join([r"(?:PET|SLIPWAY)_\w+", "HOME", THREADS, *sorted(TAKEN)])
"""Matches the variables, other than the job's own, that arguments can refer to as $(NAME)."""


@dataclass(frozen=True)
class Share:
    """The resources that a replica requests, and its limits."""

    cpu: str
    memory: str
    ephemeral_storage: str | None
    gpus: int
    limits: Limits

    @property
    def cores(self) -> Decimal:
        return cores(self.cpu)

    @property
    def bytes(self) -> int:
        return size(self.memory)

    @property
    def memory_limit(self) -> str:
        return self.memory if self.limits.memory is None else self.limits.memory

    def threads(self, processes: int) -> int:
        """Return the number of whole cores per process, at least 1."""
        return max(1, int(self.cores / processes))

    def manifest(self) -> dict[str, Any]:
        gpus = str(self.gpus) if self.gpus else None
        resources = {
            "requests": (self.cpu, self.memory, self.ephemeral_storage, gpus),
            "limits": (self.limits.cpu, self.memory_limit, self.limits.ephemeral_storage, gpus),
        }
        return {
            kind: {name: of for name, of in zip(_RESOURCES, amounts, strict=True) if of is not None}
            for kind, amounts in resources.items()
        }


def share(job: TrainingJob, role: Role) -> Share:
    """Return the resources for a replica in a role; `job.master` overrides the Master's."""
    own = job.master if role == "Master" and job.master is not None else Master()

    def amount(name: str) -> Any:
        of_role = getattr(own, name)
        return getattr(job, name) if of_role is None else of_role

    gpus = amount("gpus")
    if gpus is None:
        gpus = job.processes_per_node if job.backend == "nccl" else 0
    limits = amount("limits") or Limits()
    if own.limits is None and own.memory is not None:
        # The Workers' limit does not apply to a Master that has its own memory request.
        limits = replace(limits, memory=own.memory)
    return Share(amount("cpu"), amount("memory"), amount("ephemeral_storage"), gpus, limits)


def roles(job: TrainingJob) -> dict[Role, int]:
    """Return the number of replicas in each role, leaving out roles that have none."""
    counts: dict[Role, int] = {"Master": 0 if job.elastic is not None else 1, "Worker": job.workers}
    return {role: count for role, count in counts.items() if count > 0}


def program(job: TrainingJob, share: Share, entry: str | None) -> dict[str, Any]:
    """Return a container's command and arguments; `entry` is the script file to start."""
    processes = job.processes_per_node
    launch = ["python3", "-m", "slipway_trainer.launch", "--processes", str(processes), "--"]
    command, args = list(job.command or ()), list(job.args)
    if entry is not None:
        script = ["--", f"{SCRIPT}/{entry}"] if job.command is None else ["--command", "--"]
        command = [*launch[:-1], *script, *command]
    if job.module is not None:
        module = MODULES[job.module]
        options = {
            "--backend": job.backend,
            **{option: getattr(job, name) for name, option in module.options.items()},
            "--threads": share.threads(processes),
        }
        chosen = ((option, str(value)) for option, value in options.items() if value is not None)
        command = [*launch, "-m", f"slipway_trainer.{job.module}"]
        args = [*module.arguments, *chain.from_iterable(chosen), *args]
    placeholders = {
        # The DNS names of the replicas' Services, rank 0's first.
        "{hosts}": ",".join(
            host(job.name, role, index)
            for role, count in roles(job).items()
            for index in range(count)
        ),
        # Kubernetes expands $(…) from the environment.
        RANK_PLACEHOLDER: "$(RANK)",
        "{run_id}": f"$({RUN_ID})",
    }

    def filled(word: str) -> str:
        word = literal(word, "|".join([_GIVEN, *job.env]))
        for placeholder, value in placeholders.items():
            word = word.replace(placeholder, value)
        return word

    written = {"command": command, "args": args}
    return {key: [*map(filled, words)] for key, words in written.items() if words}


def environment(job: TrainingJob, share: Share) -> list[dict[str, Any]]:
    """Return a container's variables, other than those that the training operator sets."""
    own = None if job.script is None else job.working_dir
    variables: dict[str, str | SecretKey] = {
        "HOME": TMP,
        THREADS: str(share.threads(job.processes_per_node)),
        "SLIPWAY_JOB": job.name,
        "SLIPWAY_OUTPUT_DIR": OUTPUT_DIR,
        **({} if job.outputs is None else {"SLIPWAY_OUTPUTS": job.outputs}),
        **inputs.environment(job),
        **({} if own is None else {"SLIPWAY_WORKING_DIR": own}),
        # torchrun sets these if a replica has several processes.
        **({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} if job.processes_per_node == 1 else {}),
        **job.env,
    }
    if job.image is None and isinstance(path := job.env.get("PYTHONPATH"), str):
        variables["PYTHONPATH"] = f"{names.PACKAGES}:{path}"  # the launcher is there
    run_id = {"fieldRef": {"fieldPath": f"metadata.labels['{RUN_LABEL}']"}}
    # Lightning reads RANK only if torchrun's run id is set.
    of_torchrun = ["TORCHELASTIC_RUN_ID"] if job.processes_per_node == 1 and not job.elastic else []
    return [
        *({"name": name, "valueFrom": run_id} for name in (RUN_ID, *of_torchrun)),
        *(_variable(job.origin, name, value) for name, value in sorted(variables.items())),
    ]


def secrets(job: TrainingJob, namespace: str, values: Mapping[str, str]) -> list[Manifest]:
    """Return a Secret with the configured secrets that `job` refers to, if there are any."""
    data = {
        name: base64.b64encode(values[each.config].encode()).decode()
        for name, each in job.env.items()
        if isinstance(each, SecretKey) and each.config is not None
    }
    # The name contains no hash of the content, since even a hash could leak a secret.
    return [{**owned("Secret", secret_name(job.origin), namespace), "data": data}] if data else []


def _variable(job: str, name: str, value: str | SecretKey) -> dict[str, Any]:
    if isinstance(value, SecretKey):
        reference = {"name": value.secret, "key": value.key}
        if value.config is not None:
            reference = {"name": secret_name(job), "key": name}
        return {"name": name, "valueFrom": {"secretKeyRef": reference}}
    return {"name": name, "value": literal(value, RUN_ID)}
