"""The resource `slipway:jobs:PyTorchJob`: a training run with the life of infrastructure.

To create it is to train; what it returned stays in its state, whatever becomes of the object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.handler import Change, Handler, Properties, compare
from core.kube import api_message
from jobs.api.client import JobApi, Unreachable
from jobs.cost import TrainingCost
from jobs.model.inputs import filled, require
from jobs.model.kept import keeping, resuming
from jobs.model.names import RUN_LABEL
from jobs.model.tracked import tracked, variables
from jobs.observe.outcome import refused
from jobs.observe.verdict import Limits
from jobs.observe.wait import Wait
from jobs.records import archive
from jobs.records.history import History, Record
from jobs.records.provenance import provenance
from jobs.result import RunResult
from jobs.run import retry
from jobs.run.changes import ARTIFACTS, bring, is_in_place
from jobs.run.preview import ask, describe, show
from jobs.run.submit import remove, submit

_RETURN_SECONDS = 120.0
"""How long a cluster that has lost a node may take until the operator's webhook answers again."""
_REFUSALS = frozenset({400, 403, 404, 413, 422})


class PyTorchJobHandler(Handler):
    """The life of a run."""

    outputs: ClassVar[tuple[str, ...]] = ("result",)

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Train again for what can alter the result, and after a run that did not succeed.

        The object itself is not looked at: a result stays true when its job was cleaned away.
        """
        changes = _changes(state, inputs)
        if state["result"]["state"] != "Succeeded":
            changes.append(Change("result", replace=True, drift=True))
        if (meaning := describe(changes, state, inputs)) is not None:
            context.info(f"{meaning}{_costs(state, inputs) if _trains(changes) else ''}")
        if state["result"]["state"] == "Succeeded" and _trains(changes):
            try:
                ask(inputs)
            except RuntimeError:
                # The old run would go before the new one comes. `update` fails, and it stays.
                return [replace(change, replace=False) for change in changes]
        return changes

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Show what is to be submitted, and check whether the API server admits it."""
        if state is None:
            show(inputs, shown, context)
        elif _trains(_changes(state, inputs)):
            ask(inputs)
        return super().preview(state, inputs, shown, context)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Run the job to its end, or take up the wait for one that an interrupted run left.

        Raises:
            RuntimeError: it could not be submitted.
        """
        api = _api(inputs)
        try:
            result = _train(api, inputs, context)
        except (ApiException, Unreachable) as error:
            raise RuntimeError(
                f"PyTorchJob {api.name} was not submitted: {api_message(error)}"
            ) from error
        context.status(str(result))
        return _id(inputs), {"result": result.as_map()}

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Bring what can change in place to the job and its pods, where they still exist.

        Raises:
            RuntimeError: that was refused, or a job that would take the place of a success is.
        """
        require(inputs.get(ARTIFACTS, {}))
        if _trains(_changes(state, inputs)):
            ask(inputs)
            raise RuntimeError(f"PyTorchJob {_id(inputs)} is no longer refused: try again")
        try:
            if state["manifest"] != inputs["manifest"]:
                bring(_api(inputs), state["manifest"], inputs["manifest"])
        except (ApiException, Unreachable) as error:
            raise RuntimeError(
                f"PyTorchJob {_id(inputs)} was not changed: {api_message(error)}. Nothing was "
                "trained, the result is kept. Correct what is refused, or remove the job with "
                f"`kubectl --namespace {inputs['namespace']} delete pytorchjob "
                f"{inputs['manifest']['metadata']['name']}`, as the result does not need it; then "
                "run the same command again"
            ) from error
        return {"result": state["result"]}

    def delete(self, state: Properties, context: Context) -> None:
        """Stop the run and remove it, its pods first, and what was kept of its logs."""
        api = _api(state)
        try:
            remove(api, context)
        except Unreachable as error:
            if not kube.may_be_gone():
                raise RuntimeError(
                    f"PyTorchJob {_id(state)} cannot be deleted, its cluster does not answer: "
                    f"{api_message(error)}. {kube.IF_GONE}"
                ) from error
            context.warn(f"{_id(state)}: its cluster does not answer, so it is taken for gone")
        archive.of(context.urn).remove()


def _changes(state: Properties, inputs: Properties) -> list[Change]:
    return [
        replace(change, replace=not is_in_place(change))
        for change in compare(state, inputs)
        if change.path.partition(".")[0] != "cost"  # a preview shows it
    ]


def _costs(state: Properties, inputs: Properties) -> str:
    """Return what it costs if it takes as long as the last time; empty where one is not known."""
    seconds, cost = state["result"].get("duration_seconds"), inputs.get("cost")
    if not cost or not seconds:
        return ""
    return f"; costs {TrainingCost(**cost).in_words(seconds)}, if it takes {seconds:.0f} s again"


def _trains(changes: Sequence[Change]) -> bool:
    return any(change.replace for change in changes)


def _train(api: JobApi, inputs: Properties, context: Context) -> RunResult:
    """Submit the job, as often as `retries` allows for what `retryOn` names, and wait.

    A refusal by the API server is a result, too.
    """
    manifest = filled(inputs["manifest"], inputs.get(ARTIFACTS, {}))
    manifest = resuming(manifest, inputs.get("checkpoint"), inputs.get("outputsEvery"))
    retries = inputs["retries"]
    limits = Limits(
        total=inputs["timeoutSeconds"],
        start=inputs["startTimeoutSeconds"],
        gpu_utilization=inputs.get("minGpuUtilization"),
        cost=TrainingCost(**cost) if (cost := inputs.get("cost")) else None,
    )
    logs = archive.of(context.urn)
    history, trained_by = History(logs), provenance(inputs)
    completed = _completing(inputs, trained_by)
    before: list[retry.Attempt] = []
    while True:
        try:
            patient = api.retrying(_RETURN_SECONDS) if before else api
            job = submit(patient, manifest, context, before, completed=completed)
        except ApiException as error:
            if error.status not in _REFUSALS:
                raise
            return replace(refused(api_message(error), manifest), attempts=before or None)
        before = retry.earlier(job)
        attempt = retry.named(len(before) + 1, retries)
        run_id = job["metadata"]["labels"][RUN_LABEL]
        logs.keep([run_id, *(each["run_id"] for each in before if "run_id" in each)])
        on_cancel, kept = inputs["onCancel"], logs.run(run_id)
        begun = str(job["metadata"].get("creationTimestamp"))
        history.begin(Record(run_id=run_id, submitted=begun, provenance=trained_by))
        prefix = f"{attempt}: " if retries > 0 else ""
        wait = Wait(api, job, limits, api.age(job), context, on_cancel, kept, prefix)
        result = retry.complete(wait.to_the_end(), before)
        history.end(run_id, result.as_map())
        reason = retry.curable(result, inputs.get("retryOn", ["lostNode"]))
        if reason is None or len(before) >= retries:
            return result
        before = retry.with_ended(before, result, reason)
        # Should this process be killed now, the remaining job records its attempt.
        api.patch({"metadata": {"annotations": retry.annotations(before)}})
        word = "failed" if result.failure is None or not result.failure.disruption else "was lost"
        context.warn(f"{attempt} {word}: {before[-1]['reason']}. The job is submitted anew")


def _completing(
    inputs: Properties, facts: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return what adds to a PyTorchJob where its files are kept, and where it is tracked."""
    sent = variables(inputs.get("tracking"), facts)
    return lambda manifest: tracked(keeping(manifest, inputs.get("kept")), sent)


def _id(properties: Properties) -> str:
    return f"{properties['namespace']}/{properties['manifest']['metadata']['name']}"


def _api(properties: Properties) -> JobApi:
    name = properties["manifest"]["metadata"]["name"]
    return JobApi.connect(properties["kubeconfig"], properties["namespace"], name)
