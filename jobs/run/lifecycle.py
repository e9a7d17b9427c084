"""The resource `slipway:jobs:PyTorchJob`: a training run with the lifecycle of infrastructure.

Creating it runs the job; the result stays in the state, even if the PyTorchJob is deleted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.handler import UNKNOWN, Change, Handler, Properties
from core.kube import REQUEST_ERRORS, api_message
from jobs.api.client import Unreachable
from jobs.model.manifest import manifest
from jobs.model.submission import Submission
from jobs.plan import TrainingCost
from jobs.records import archive
from jobs.records.events import added
from jobs.records.history import History, provenance
from jobs.result import RUNNING, RunResult
from jobs.run.ledger import Ledger
from jobs.run.notify import Hook
from jobs.run.patch import patch_in_place
from jobs.run.preview import alters_result, describe, show, validate_admission
from jobs.run.submit import remove
from jobs.run.takeover import upgraded
from jobs.run.train import Training

_NOT_OF_A_RUN = frozenset({"hook", "kubeconfig", "waiter"})


class PyTorchJobHandler(Handler):
    """Handler for a job's run."""

    outputs: ClassVar[tuple[str, ...]] = ("result",)
    passing_inputs: ClassVar[frozenset[str]] = frozenset({"cost", "hook", "refusedPulls", "waiter"})

    def __init__(self) -> None:
        self._succeeded: dict[str, str | None] = {}
        """The latest successful run's ID, keyed by URN, for jobs that this `up` trains again."""

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Replace the run if a change can alter its result, or if the run did not succeed."""
        # The PyTorchJob is not read: a result stays valid after its job is deleted.
        state = upgraded(state)
        changes = self._changes(state, inputs, context)
        if state["result"]["state"] == RUNNING:
            result, own = _of_running(state, inputs, context)
            state, changes = {**state, "result": result or state["result"]}, [*changes, *own]
        elif state["result"]["state"] != "Succeeded":
            changes.append(Change("result", replace=True, drift=True))
        if (meaning := describe(changes, state, inputs)) is not None:
            context.info(f"{meaning}{_costs(state, inputs) if _trains(changes) else ''}")
        if state["result"]["state"] in {"Succeeded", RUNNING} and _trains(changes):
            try:
                validate_admission(inputs)
            except RuntimeError:
                # A replacement would remove the old run first, so let `update` raise instead.
                return [replace(change, replace=False) for change in changes]
        return changes

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Show the new run, and check whether the API server admits it."""
        if state is None:
            show(inputs, shown, context)
        elif _trains(self._changes(upgraded(state), inputs, context)):
            validate_admission(inputs)
        return super().preview(state, inputs, shown, context)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Run the job until it ends, or resume waiting for one that an interrupted `up` started.

        Raises:
            RuntimeError: the job could not be submitted or waited for.
        """
        api, logs = _api(inputs), archive.of_urn(context.urn)
        logs.take(inputs["job"]["name"], inputs["job"].get("was", ()))
        run = {key: value for key, value in inputs.items() if key not in _NOT_OF_A_RUN}
        run |= {"facts": provenance(inputs), "succeeded": self._succeeded.get(context.urn)}
        training = Training.of(run, api, logs, context)
        try:
            result = _with_waiter(api, training, run, inputs)
            if result is None:
                result = training.to_the_end()
                if (hook := inputs.get("hook")) is not None:
                    Hook(**hook).notify_in_thread(api.name, result, context.warn)
        except REQUEST_ERRORS as error:
            raise RuntimeError(
                f"a request about PyTorchJob {api.namespace}/{api.name} failed: "
                f"{api_message(error)}. If it has been submitted, it continues, and the next "
                "`make up` waits for it again"
            ) from error
        context.status(str(result))
        return f"{api.namespace}/{api.name}", {"result": result.as_map()}

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Apply in-place changes to the job and its pods, if they still exist.

        Raises:
            RuntimeError: the API server refused them, or refused to replace a successful run.
        """
        state = upgraded(state)
        api = _api({**state, "kubeconfig": inputs["kubeconfig"]})  # with the name that it still has
        job = f"{api.namespace}/{api.name}"
        if _trains(self._changes(state, inputs, context)):
            validate_admission(inputs)
            raise RuntimeError(f"PyTorchJob {job} is no longer refused: run the same command again")
        inputs = {**inputs, "image": state["image"]}  # which only a run that goes on may keep
        before, now = (manifest(Submission.from_inputs(each)) for each in (state, inputs))
        logs, is_running = archive.of_urn(context.urn), state["result"]["state"] == RUNNING
        try:
            if state["job"]["name"] != inputs["job"]["name"]:
                if is_running and "result" not in (api.read_values() or {}):
                    raise RuntimeError(
                        f"PyTorchJob {job} is still running; rename it after it finishes"
                    )
                # An object can't be renamed; the result, the logs and the files do not need it.
                logs.take(inputs["job"]["name"], inputs["job"].get("was", ()))
                if is_running and (ended := api.catch_up(logs)) is not None:
                    state, is_running = {**state, "result": ended.as_map()}, False
                remove(api, context)
                api.remove(context)
            elif before != now:
                patch_in_place(api, before, now)
        except REQUEST_ERRORS as error:
            raise RuntimeError(
                f"PyTorchJob {job} was not changed: {api_message(error)}. Nothing was trained, and "
                "the result is kept. Correct the settings or, if its run has ended, delete the "
                f"PyTorchJob with `kubectl --namespace {api.namespace} delete pytorchjob "
                f"{api.name}`, which the result does not need; then run the same command again"
            ) from error
        if is_running:
            return {"image": state["image"], **self.create(inputs, context)[1]}
        return {"image": state["image"], "result": _searched(state, inputs, context)}

    def delete(self, state: Properties, context: Context) -> None:
        """Stop the run: delete its waiter, the PyTorchJob with its pods, and the archived logs."""
        api = _api(upgraded(state))
        job = f"PyTorchJob {api.namespace}/{api.name}"
        try:
            api.remove(context)
            remove(api, context)
        except ApiException as error:
            raise RuntimeError(f"{job} can't be deleted: {api_message(error)}") from error
        except Unreachable as error:
            if not kube.may_be_gone():
                raise RuntimeError(
                    f"{job} can't be deleted, because its cluster is not responding: "
                    f"{api_message(error)}. {kube.IF_GONE}"
                ) from error
            context.warn(f"{job}: assumed deleted, because its cluster is not responding")
        archive.of_urn(context.urn).remove()
        if (values := state.get("result")) is not None:
            result = RunResult.from_map(values)
            last = result.run_id if result.succeeded else result.last_succeeded
            self._succeeded[context.urn] = last

    def _changes(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        return alters_result(super().diff(state, inputs, context), state, inputs)


def _of_running(
    state: Properties, inputs: Properties, context: Context
) -> tuple[Any, list[Change]]:
    """Return the result, if any, of a run that a waiter watches, and the changes it causes."""
    if inputs["kubeconfig"] is UNKNOWN:  # until other jobs or the cluster have changed
        return None, []
    try:
        ledger = _api({**state, "kubeconfig": inputs["kubeconfig"]})
        values = ledger.read_values()
        is_due = "waiter" not in inputs or ledger.is_outdated(inputs)
    except REQUEST_ERRORS:
        return None, []
    if values is None:
        context.info("nothing is waiting for it any more: the run or its cluster was removed")
        return None, [Change("result", replace=True, drift=True)]
    result = json.loads(values.get("result", "null"))
    changes = [Change("result", drift=True)] if result is not None or is_due else []
    if result is not None or "waiter" not in inputs:
        return result, changes
    text = values.get("status", "its waiter is starting")
    kept = "" if state["image"] == inputs["image"] else ", in the image that it began with"
    context.info(f"still running{kept}: {text}. `make wait JOB={state['job']['name']}` follows it")
    return None, changes


def _with_waiter(
    ledger: Ledger, training: Training, run: Properties, inputs: Properties
) -> RunResult | None:
    """Follow a run's waiter, which may have to be created; return None if the run has no waiter."""
    context, image = training.context, inputs.get("waiter")
    if not ledger.resume(run, inputs, context):
        ledger.remove(context)
        if image is None:
            return None
        try:
            ledger.begin(run, image, inputs.get("hook"))
        except ApiException as error:
            ledger.remove(context)
            if error.status not in kube.REFUSED:
                raise
            context.warn(f"waiting here, because a waiter was refused: {api_message(error)}")
            return None
    return ledger.follow(context, training.logs, to_the_end=image is None)


def _searched(state: Properties, inputs: Properties, context: Context) -> Any:
    """Return the result, plus metrics that changed patterns find in the archived log."""
    values, logs = state["result"], archive.of_urn(context.urn)
    before, now = (each["job"].get("metrics", {}) for each in (state, inputs))
    if changed := [name for name in now if now[name] != before.get(name)]:
        result = RunResult.from_map(values)
        run_id = result.run_id or ""
        values = added(result, logs.run(run_id), now, context.warn, changed).as_map()
        History(logs).end(run_id, values)
    return values


def _costs(state: Properties, inputs: Properties) -> str:
    """Describe the cost of a run that takes as long as the last one; empty if this is unknown."""
    seconds, cost = state["result"].get("duration_seconds"), inputs.get("cost")
    if not cost or not seconds:
        return ""
    return f"; costs {TrainingCost(**cost).in_words(seconds)}, if it takes {seconds:.0f} s again"


def _trains(changes: Sequence[Change]) -> bool:
    return any(change.replace for change in changes)


def _api(properties: Mapping[str, Any]) -> Ledger:
    name = properties["job"]["name"]
    return Ledger.connect(properties["kubeconfig"], properties["namespace"], name)
