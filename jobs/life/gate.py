"""The resource `slipway:jobs:Gate`: an `up` fails when a run did not succeed, or not well enough.

A resource of its own beside the run, so that the run's result is kept whatever it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties, compare
from jobs.watch.story import explain


class GateHandler(Handler):
    """Its life: it exists exactly while the run's result is a success that misses no limit."""

    type: ClassVar[str] = "slipway:jobs:Gate"

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """Every new result is judged anew, and by new limits the one that there is."""
        changed = {change.path.split(".")[0]: change.kind for change in compare(state, inputs)}
        # The inputs name no limit that was taken out, and no result that there is not.
        gone = {each for each in ("result", *_LIMITS) if each in state and each not in inputs}
        return [Change(path, replace=True) for path in sorted(changed.keys() | gone)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Let a success pass.

        Raises:
            RuntimeError: with the whole story of a run that did not succeed, or by how much one
                that did missed each of its limits.
        """
        job, result = inputs["job"], inputs.get("result")
        if result is None:
            # The engine goes on after an error when it is told to.
            raise RuntimeError(f"job {job} has no result: its run did not come to an end")
        if result["state"] != "Succeeded":
            raise RuntimeError(explain(job, result) + _earlier(result))
        if misses := list(missed(inputs, result)):
            raise RuntimeError(_told(job, misses))
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


_LIMITS = ("minAccuracy", "maxDuration", "maxTimeToAccuracy")


def _earlier(result: Mapping[str, Any]) -> str:
    """Return how the attempts before the last one ended, where there were any."""
    attempts = result.get("attempts") or []
    lines = [f"\n    attempt {each['number']}: {each['reason']}" for each in attempts]
    return f"\nit was submitted anew after:{''.join(lines)}" if lines else ""


def missed(inputs: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[str]:
    """Yield each limit that the result misses, and by how much."""
    if (least := inputs.get("minAccuracy")) is not None:
        yield from _accuracy(least, result)
    if (most := inputs.get("maxDuration")) is not None:
        yield from _too_long("maxDuration", most, "a duration", result.get("duration_seconds"))
    if (most := inputs.get("maxTimeToAccuracy")) is not None:
        found = result.get("time_to_accuracy_seconds")
        if found is None:
            yield _NO_TIME.format(most, result.get("goal", "none"))
        else:
            yield from _too_long("maxTimeToAccuracy", most, "a time to its goal", found)


_NO_TIME = (
    "it told no time to accuracy, so `maxTimeToAccuracy` {:g} can't be judged (its goal: {}): give "
    "the job a `goal` that it reaches, or let its program write time_to_accuracy_seconds "
    "(docs/results.md)"
)


def _accuracy(least: float | Mapping[str, float], result: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(least, Mapping):
        # What it was really trained on counts.
        dataset = str(result.get("dataset", "a data set that it did not name"))
        if dataset not in least:
            yield (
                f"it has a `minAccuracy` for {', '.join(sorted(least))}, and its result is for "
                f"{dataset}: add one for it, or set one number"
            )
            return
        least = least[dataset]
    accuracy = result.get("accuracy")
    if accuracy is None:
        yield (
            f"it told no accuracy, so `minAccuracy` {least:g} can't be judged: let its program "
            "write one (docs/results.md), or take the `minAccuracy` out"
        )
    elif not accuracy >= least:
        yield (
            f"an accuracy of {_figure(accuracy, least)}, which is {_difference(least - accuracy)} "
            f"less than its `minAccuracy` {least:g}"
        )


def _too_long(limit: str, most: float, what: str, seconds: float | None) -> Iterator[str]:
    if seconds is None:
        yield f"it has no duration, so `{limit}` {most:g} can't be judged"
    elif not seconds <= most:
        yield (
            f"{what} of {seconds:g} s, which is {_difference(seconds - most, 1)} s more than its "
            f"`{limit}` {most:g}"
        )


def _told(job: str, missed: list[str]) -> str:
    listed = "".join(f"\n  {each}" for each in missed)
    what = f": {missed[0]}" if len(missed) == 1 else f" {len(missed)} limits:{listed}\n"
    return (
        f"job {job} succeeded, but missed{what}. Its result is kept and it is not trained again: "
        "change what it trains with, or the limit"
    )


def _figure(value: float, limit: float) -> str:
    """Return a figure with as many digits as tell it from its limit."""
    return f"{value:.4f}" if abs(value - limit) >= _SMALLEST else f"{value!r}"


def _difference(amount: float, digits: int = 4) -> str:
    """Return by how much a limit was missed, never as 0."""
    return f"{amount:.{digits}f}" if amount >= 10**-digits else f"{amount:.2g}"


_SMALLEST = 0.0001
