"""The resource `slipway:jobs:PyTorchJob`: a training run with the life of infrastructure.

To create it is to train; what it returned stays in its state, whatever becomes of the object.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.handler import Change, Handler, Properties, compare
from jobs.api import JobApi, Unreachable, error_message
from jobs.cost import TrainingCost
from jobs.judge.outcome import refused
from jobs.judge.timeouts import Limits
from jobs.logs import archive
from jobs.result import RunResult
from jobs.run import changes as in_place
from jobs.run import retry
from jobs.run.changes import ARTIFACTS
from jobs.run.describe import describe
from jobs.run.preview import Preview, ask
from jobs.run.retry import AttemptContext
from jobs.run.submit import remove, submit
from jobs.spec.inputs import filled, require
from jobs.spec.names import RUN_LABEL
from jobs.watch.wait import Wait

_RETURN_SECONDS = 120.0
"""How long a cluster that has lost a node may take until the operator's webhook answers again."""
_REFUSALS = frozenset({400, 403, 404, 413, 422})


class PyTorchJobHandler(Handler):
    """The life of a run."""

    type: ClassVar[str] = "slipway:jobs:PyTorchJob"
    outputs: ClassVar[tuple[str, ...]] = ("result",)

    def __init__(self) -> None:
        self._preview = Preview()

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """Train again for what can alter the result, and after a run that did not succeed.

        The object itself is not looked at: a result stays true when its job was cleaned away.
        """
        changes = _changes(state, inputs)
        if state["result"]["state"] != "Succeeded":
            changes.append(Change("result", replace=True, drift=True))
        if (meaning := describe(changes, state, inputs)) is not None:
            context.info(f"{meaning}{_costs(state, inputs) if _trains(changes) else ''}")
        if state["result"]["state"] == "Succeeded" and _trains(changes) and _is_refused(inputs):
            # The old run would go before the new one comes. `update` fails, and it stays.
            return [replace(change, replace=False) for change in changes]
        return changes

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Show what is to be submitted, and check whether the API server admits it."""
        if state is None:
            self._preview.show(inputs, shown, context)
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
        except ApiException as error:
            raise RuntimeError(
                f"PyTorchJob {api.name} was not submitted: {error_message(error)}"
            ) from error
        except Unreachable as error:
            raise RuntimeError(f"PyTorchJob {api.name} was not submitted: {error}") from error
        context.status(str(result))
        return f"{inputs['namespace']}/{api.name}", {"result": result.as_map()}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """A refresh never loses a result."""
        return {"result": state["result"]}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring what can change in place to the job and its pods, where they still exist.

        Raises:
            RuntimeError: that was refused, or a job that would take the place of a success is.
        """
        require(inputs.get(ARTIFACTS, {}))
        if _trains(_changes(state, inputs)):
            ask(inputs)
            raise RuntimeError(f"PyTorchJob {resource_id} is no longer refused: try again")
        try:
            if state["manifest"] != inputs["manifest"]:
                in_place.bring(_api(inputs), state["manifest"], inputs["manifest"])
        except (ApiException, Unreachable) as error:
            raise RuntimeError(
                f"PyTorchJob {resource_id} was not changed: {error_message(error)}. Nothing was "
                "trained, the result is kept. Correct what is refused, or remove the job with "
                f"`kubectl --namespace {inputs['namespace']} delete pytorchjob "
                f"{inputs['manifest']['metadata']['name']}`, as the result does not need it; then "
                "run the same command again"
            ) from error
        return {"result": state["result"]}

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Stop the run and remove it, its pods first, and what was kept of its logs."""
        api = _api(state)
        try:
            remove(api, context)
        except Unreachable as error:
            if not kube.may_be_gone():
                raise RuntimeError(
                    f"PyTorchJob {resource_id} cannot be deleted, its cluster does not answer: "
                    f"{error_message(error)}. {kube.IF_GONE}"
                ) from error
            context.warn(f"{resource_id}: its cluster does not answer, so it is taken for gone")
        archive.of(context.urn).remove()


def _changes(state: Properties, inputs: Properties) -> list[Change]:
    return [
        replace(change, replace=not in_place.is_in_place(change))
        for change in compare(state, inputs)
        if change.path.partition(".")[0] not in {"room", "cost"}  # what a preview shows
    ]


def _costs(state: Properties, inputs: Properties) -> str:
    """Return what it costs if it takes as long as the last time; empty where one is not known."""
    seconds, cost = state["result"].get("duration_seconds"), inputs.get("cost")
    if not cost or not seconds:
        return ""
    return f"; costs {TrainingCost(**cost).in_words(seconds)}, if it takes {seconds:.0f} s again"


def _trains(changes: Sequence[Change]) -> bool:
    return any(change.replace for change in changes)


def _is_refused(inputs: Properties) -> bool:
    try:
        ask(inputs)
    except RuntimeError:
        return True
    return False


def _train(api: JobApi, inputs: Properties, context: Context) -> RunResult:
    """Submit the job, as often as `retries` allows while its cluster takes it away, and wait.

    Raises:
        ApiException: the API server does not answer as it should; a refusal is a result.
        Unreachable: no answer came.
        InterruptedWait: the wait ended before the run.
    """
    manifest = filled(inputs["manifest"], inputs.get(ARTIFACTS, {}))
    retries = inputs.get("retries", 0)
    limits = Limits(inputs["timeoutSeconds"], inputs["startTimeoutSeconds"])
    before: list[retry.Attempt] = []
    while True:
        try:
            patient = api.retrying(_RETURN_SECONDS) if before else api
            submitted = submit(patient, manifest, context, before)
        except ApiException as error:
            if error.status not in _REFUSALS:
                raise
            return _with_attempts(refused(error_message(error), manifest), before)
        before = retry.earlier(submitted.job)
        attempt = AttemptContext(context, len(before) + 1, retries + 1)
        row = attempt if retries > 0 else context
        on_cancel = inputs.get("onCancel", "keep")
        run_ids = [each["run_id"] for each in before if "run_id" in each]
        logs = archive.of(context.urn)
        run_id = submitted.job["metadata"]["labels"][RUN_LABEL]
        logs.keep([run_id, *run_ids])
        kept = logs.run(run_id)
        wait = Wait(api, submitted.job, limits, submitted.age, row, on_cancel, kept)
        result = wait.to_the_end()
        if retry.lost(result) is None or len(before) >= retries:
            return _with_attempts(result, before)
        before = retry.with_lost(before, result)
        # Should this process be killed now, the remaining job records its attempt.
        api.patch({"metadata": {"annotations": retry.annotations(before)}})
        context.warn(f"{attempt} was lost: {before[-1]['reason']}. The job is submitted anew")


def _with_attempts(result: RunResult, before: list[retry.Attempt]) -> RunResult:
    return replace(result, attempts=before) if before else result


def _api(properties: Properties) -> JobApi:
    name = properties["manifest"]["metadata"]["name"]
    return JobApi.connect(properties["kubeconfig"], properties["namespace"], name)
