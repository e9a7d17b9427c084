"""The resource `slipway:jobs:PyTorchJob`: a training run with the life of infrastructure.

To create it is to train; what it returned stays in its state, whatever becomes of the object.
"""

import os
from dataclasses import replace
from typing import ClassVar

from kubernetes.client.exceptions import ApiException

from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties, compare
from jobs.api import JobApi, Unreachable, said
from jobs.results import Result, refused
from jobs.submit import remove, submit
from jobs.tracker import Limits
from jobs.wait import Wait

_CANNOT_ALTER_A_RESULT = (
    "manifest.metadata.labels",
    "manifest.metadata.annotations",
    "manifest.spec.runPolicy",
)
_OF_THE_WAIT = ("kubeconfig", "timeoutSeconds", "startTimeoutSeconds")
_REFUSALS = frozenset({400, 403, 404, 413, 422})
_DELETE_UNREACHABLE = "PULUMI_K8S_DELETE_UNREACHABLE"


class PyTorchJobHandler(Handler):
    """The life of a run."""

    type: ClassVar[str] = "slipway:jobs:PyTorchJob"
    outputs: ClassVar[tuple[str, ...]] = ("result",)

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """Train again for what can alter the result, and after a run that did not succeed.

        The object itself is not looked at: a result stays true when its job was cleaned away.
        """
        changes = [
            replace(change, replace=not change.path.startswith(_IN_PLACE))
            for change in compare(state, inputs)
        ]
        if state["result"]["state"] != "Succeeded":
            changes.append(Change("result", replace=True, drift=True))
        return changes

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Run the job to its end, or take up the wait for one that an interrupted run left."""
        manifest = inputs["manifest"]
        api = _api(inputs)
        try:
            submitted = submit(api, manifest, context)
        except ApiException as error:
            if error.status not in _REFUSALS:
                raise RuntimeError(
                    f"PyTorchJob {api.name} was not submitted: {said(error)}"
                ) from error
            result = refused(said(error), manifest)
        except Unreachable as error:
            raise RuntimeError(f"PyTorchJob {api.name} was not submitted: {error}") from error
        else:
            limits = Limits(inputs["timeoutSeconds"], inputs["startTimeoutSeconds"])
            result = Wait(api, submitted.job, limits, submitted.age, context).to_the_end()
        context.status(_last_words(result))
        return f"{inputs['namespace']}/{api.name}", {"result": result}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """A refresh never loses a result."""
        return {"result": state["result"]}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring labels, annotations and the run policy to the job, where it is still there."""
        old, new = state["manifest"], inputs["manifest"]
        change = {
            "metadata": {
                key: _merge_patch(old["metadata"].get(key, {}), new["metadata"].get(key, {}))
                for key in ("labels", "annotations")
            },
            "spec": {"runPolicy": _merge_patch(old["spec"]["runPolicy"], new["spec"]["runPolicy"])},
        }
        if old != new:
            _api(inputs).patch(change)
        return {"result": state["result"]}

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Stop the run and remove it, its pods first."""
        api = _api(state)
        try:
            remove(api, context)
        except Unreachable as error:
            if os.environ.get(_DELETE_UNREACHABLE, "").lower() != "true":
                raise RuntimeError(
                    f"PyTorchJob {resource_id} cannot be deleted, its cluster does not answer: "
                    f"{said(error)}. If it is gone for good, set {_DELETE_UNREACHABLE}=true"
                ) from error
            context.warn(f"{resource_id}: its cluster does not answer, so it is taken for gone")


_IN_PLACE = (*_CANNOT_ALTER_A_RESULT, *_OF_THE_WAIT)


def _api(properties: Properties) -> JobApi:
    name = properties["manifest"]["metadata"]["name"]
    return JobApi.connect(properties["kubeconfig"], properties["namespace"], name)


def _merge_patch(old: Properties, new: Properties) -> Properties:
    """Return the JSON merge patch from `old` to `new`: what is no longer asked for becomes null."""
    return {**dict.fromkeys(old.keys() - new.keys()), **new}


def _last_words(result: Result) -> str:
    if result["state"] != "Succeeded":
        return f"{result['state']}: {result['reason']}"
    accuracy = f", accuracy {result['accuracy']}" if "accuracy" in result else ""
    return f"Succeeded in {result['duration_seconds']:g} s{accuracy}"
