"""The resource `slipway:jobs:Gate`: an `up` fails when a run did not succeed, or not well enough.

A resource of its own beside the run, so that the run's result is kept whatever it is.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties, compare
from jobs.failure import explain


class GateHandler(Handler):
    """Its life: it exists exactly while the run's result is a success at its minimum accuracy."""

    type: ClassVar[str] = "slipway:jobs:Gate"

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """Every new result is judged anew."""
        changed = {change.path.split(".")[0] for change in compare(state, inputs)}
        return [Change(path, replace=True) for path in sorted(changed)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Let a success pass.

        Raises:
            RuntimeError: with the whole story of a run that did not succeed, or by how much one
                that did missed its `minAccuracy`.
        """
        job, result = inputs["job"], inputs["result"]
        if result["state"] != "Succeeded":
            raise RuntimeError(explain(job, result))
        if (minimum := inputs.get("minAccuracy")) is not None:
            _judge(job, result.get("accuracy"), _of_dataset(job, minimum, result))
        return job, {}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """A judgement stands."""
        return {}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """See `diff`: a gate is replaced, never changed."""
        raise NotImplementedError("a gate is replaced, never updated")

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """There is nothing behind it."""


def _of_dataset(job: str, minimum: float | Mapping[str, float], result: Mapping[str, Any]) -> float:
    """Return the minimum that holds for what the run was really trained on."""
    if not isinstance(minimum, Mapping):
        return minimum
    dataset = str(result.get("dataset", "a data set that it did not name"))
    if dataset not in minimum:
        raise RuntimeError(
            f"job {job} has a `minAccuracy` for {', '.join(sorted(minimum))}, and its result is "
            f"for {dataset}. Add one for it, or set one number"
        )
    return minimum[dataset]


def _judge(job: str, accuracy: float | None, minimum: float) -> None:
    if accuracy is None:
        raise RuntimeError(
            f"job {job} succeeded but told no accuracy, so `minAccuracy` {minimum:g} can't be "
            "judged. Let its program write one (docs/results.md), or take the `minAccuracy` out"
        )
    if not accuracy >= minimum:
        raise RuntimeError(
            f"job {job} succeeded with an accuracy of {accuracy:.4f}, which is "
            f"{minimum - accuracy:.4f} less than its `minAccuracy` {minimum:g}. Its result is kept "
            "and it is not trained again: change what it trains with, or lower the `minAccuracy`"
        )
