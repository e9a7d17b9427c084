"""Read the parts of a stack's state that concern jobs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core import tokens
from jobs.model.names import outputs_url
from jobs.records import archive
from jobs.result import RUNNING, RunResult
from jobs.run.takeover import upgraded
from scripts.cli.backend import Cli, exists, exported, name_of, rows

_NAMESPACE = f"{tokens.JOB_NAMESPACE}$kubernetes:core/v1:Namespace::"


@dataclass(frozen=True)
class JobState:
    """A job in a stack's state, with its run and its gate."""

    name: str
    inputs: Mapping[str, Any]  # the run's inputs, as last declared
    result: RunResult | None = None  # of the last finished run, if any
    operation: str | None = None
    """The run's pending operation in a running or interrupted update, such as `creating`."""
    gate: Mapping[str, Any] | None = None  # the gate's inputs, if a result has passed it

    @property
    def namespace(self) -> str:
        """The namespace of the job's PyTorchJob."""
        return str(self.inputs["namespace"])

    @property
    def declared(self) -> Mapping[str, Any]:
        """The job's declaration, in the form that `jobs.model.job.declaration` returns."""
        return dict(self.inputs["job"])

    @property
    def kept(self) -> str | None:
        """The URL of the files that the stack keeps for the job, or None if it sets `outputs`."""
        folder = (self.declared.get("was") or [self.name])[0]
        return outputs_url(self.inputs.get("place"), folder, self.declared.get("outputs"))

    @property
    def passed(self) -> bool:
        """True if the job's current result has passed the gate."""
        return self.gate is not None and _result(self.gate.get("result")) == self.result


@dataclass(frozen=True)
class StackState:
    """The parts of a stack's state that concern jobs."""

    kubeconfig: str | None = None  # its content; None if there is no cluster, or if encrypted
    namespace: str | None = None  # of the jobs; None before it exists
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)  # jobs the cluster can't run, and why
    trainer: str | None = None  # the image reference for pods, if there is an image

    @classmethod
    def from_export(cls, export: Mapping[str, Any]) -> "StackState":
        """Parse the output of `pulumi stack export`."""
        resources, pending = rows(export, "resources"), rows(export, "pending_operations")
        jobs = {each.name: each for each in _jobs(resources, pending)}
        stacks = [_outputs(each) for each in resources if each["type"] == "pulumi:pulumi:Stack"]
        # From the cluster's resource, since the stack's outputs are not set until `up` finishes.
        kubeconfigs = (_plain(_outputs(each).get("kubeconfig")) for each in resources)
        namespaces = [name_of(each) for each in resources if _NAMESPACE in each["urn"]]
        # A namespace that already existed is not a resource in the stack.
        ready = [each["inputs"] for each in resources if each["type"] == tokens.OPERATOR_READY]
        namespaces += [each["jobNamespace"] for each in ready]
        namespaces += [job.namespace for job in jobs.values()]
        trainers = {
            name_of(each): _outputs(each).get("reference")
            for each in resources
            if each["type"] == tokens.IMAGE and name_of(each).startswith("slipway-trainer")
        }
        return cls(
            next((each for each in kubeconfigs if isinstance(each, str)), None),
            namespaces[0] if namespaces else None,
            jobs,
            skipped=(stacks[0].get("skipped") or {}) if stacks else {},
            # The smallest image has the shortest name.
            trainer=trainers[min(trainers, key=len)] if trainers else None,
        )


def read_state(stack: str, *, secrets: bool = False, logs_of: str | None = None) -> StackState:
    """Return the stack's state, empty if there is no stack; `secrets` includes the kubeconfig.

    Detached runs that have finished since the last `up` are included with their results. If another
    machine waited for a run of the job `logs_of`, or of any job if that is "", the run's records
    are fetched.
    """
    state = StackState.from_export(exported(stack))
    due = list[JobState]()
    for name, job in state.jobs.items():
        if (result := job.result) is not None:
            run = archive.of_job(stack, name).run(result.run_id or "")
            is_missing = logs_of in {"", name} and not run.directory.exists()
            due += [job] if is_missing or result.state == RUNNING else []
    if (secrets or due) and exists(stack):
        text = Cli(stack).query("stack", "export", "--show-secrets")
        state = StackState.from_export(json.loads(text))
    if due:
        from scripts.cli.runs.detached import caught_up  # noqa: PLC0415 - it takes a second

        state = caught_up(stack, state, due)
    return state


def _jobs(resources: list[Any], pending: list[Any]) -> Iterator[JobState]:
    begun, runs, gates = {}, {}, {}
    for each in resources:
        # A replaced resource is about to be deleted, or is kept until its replacement exists.
        if each.get("delete"):
            continue
        if each["type"] == tokens.PYTORCH_JOB and each.get("pendingReplacement"):
            begun[name_of(each)] = ("replacing", each)
        elif each["type"] == tokens.PYTORCH_JOB:
            runs[name_of(each)] = each
        elif each["type"] == tokens.GATE and not each.get("pendingReplacement"):
            gates[name_of(each)] = each
    for each in pending:
        if each["resource"]["type"] == tokens.PYTORCH_JOB:
            begun[name_of(each["resource"])] = (each["type"], each["resource"])
    for name in dict.fromkeys([*runs, *begun]):
        operation, latest = begun[name] if name in begun else (None, runs[name])
        inputs = upgraded(_plain(latest.get("inputs")) or {})
        if "job" in inputs:
            result = _plain(_outputs(runs[name]).get("result")) if name in runs else None
            gate = _plain(gates[name]["inputs"]) if name in gates else None
            yield JobState(name, inputs, _result(result), operation, gate)


def _result(recorded: Mapping[str, Any] | None) -> RunResult | None:
    return None if recorded is None else RunResult.from_map(recorded)


def _outputs(resource: Mapping[str, Any]) -> dict[str, Any]:
    return dict(resource.get("outputs") or {})


def _plain(value: Any) -> Any:
    """Return a value with plaintext secrets unwrapped; encrypted secrets are left as they are."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("plaintext"), str):
        return json.loads(value["plaintext"])
    return {key: _plain(each) for key, each in value.items()}
