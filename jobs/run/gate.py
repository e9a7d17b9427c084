"""The resource `slipway:jobs:Gate`: an `up` fails when a run did not succeed, or not well enough.

A resource of its own beside the run, so that the run's result is kept whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.context import Context
from core.handler import Change, Handler, Properties, compare
from core.problem import meant
from jobs.result import FIGURES, RunResult, explain

if TYPE_CHECKING:  # It takes a second to import.
    from jobs.spec import TrainingJob


class GateHandler(Handler):
    """Its life: it exists exactly while the run's result is a success that misses no limit.

    It exists in the state alone, and is replaced rather than updated.
    """

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Every new result is judged anew, and by new limits the existing one."""
        changed = {change.path.split(".")[0] for change in compare(state, inputs)}
        # The inputs name no limit that was removed, and no missing result.
        changed |= state.keys() - inputs.keys()
        return [Change(path, replace=True) for path in sorted(changed)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Let a success pass.

        Raises:
            RuntimeError: with the history of a run that did not succeed, or by how much one
                that did missed each of its limits.
        """
        job = inputs["job"]
        if inputs.get("result") is None:
            # With PULUMI_CONTINUE_ON_ERROR the engine goes on after an error.
            raise RuntimeError(f"job {job} has no result: its run did not come to an end")
        result = RunResult.of(inputs["result"])
        if not result.succeeded:
            raise RuntimeError(explain(job, result) + _earlier(result))
        misses = list(missed(inputs, result))
        if misses:
            listed = "".join(f"\n  {each}" for each in misses)
            what = f": {misses[0]}. " if len(misses) == 1 else f" {len(misses)} limits:{listed}\n"
            raise RuntimeError(
                f"job {job} succeeded, but missed{what}Its result is kept and it is not trained "
                "again: change its settings or the limit"
            )
        return job, {}


def _earlier(result: RunResult) -> str:
    """Return how the attempts before the last one ended, if any."""
    attempts = result.attempts or ()
    lines = [f"\n    attempt {each['number']}: {each['reason']}" for each in attempts]
    return f"\nit was submitted anew after:{''.join(lines)}" if lines else ""


def limits(job: TrainingJob) -> dict[str, Any]:
    """Return a job's limits, as `missed` takes them; None is none."""
    bounds = {
        name: {key: value for key, value in asdict(each).items() if value is not None}
        for name, each in job.require.items()
    }
    return {
        "minAccuracy": job.min_accuracy,
        "maxDuration": job.max_duration,
        "maxTimeToAccuracy": job.max_time_to_accuracy,
        "require": bounds or None,
    }


def missed(inputs: Mapping[str, Any], result: RunResult) -> Iterator[str]:
    """Yield each of a gate's limits that the result misses, and by how much."""
    if (least := inputs.get("minAccuracy")) is not None:
        yield from _accuracy(least, result)
    if (most := inputs.get("maxDuration")) is not None:
        lacking = f"it has no duration, so `maxDuration` {most:g} can't be judged"
        yield from _seconds("a duration", result.duration_seconds, "maxDuration", most, lacking)
    if (most := inputs.get("maxTimeToAccuracy")) is not None:
        lacking = (
            f"no time to accuracy was reported, so `maxTimeToAccuracy` {most:g} can't be judged "
            f"(its goal: {result.goal or 'none'}): give the job a `goal` that it reaches, or let "
            "its program write time_to_accuracy_seconds (docs/results.md)"
        )
        found = result.time_to_accuracy_seconds
        yield from _seconds("a time to its goal", found, "maxTimeToAccuracy", most, lacking)
    for name, bounds in (inputs.get("require") or {}).items():
        yield from _out_of_bounds(name, bounds, result)


def _accuracy(least: float | Mapping[str, float], result: RunResult) -> Iterator[str]:
    if isinstance(least, Mapping):
        # What it was really trained on counts.
        dataset = result.dataset or "a data set that it did not name"
        if dataset not in least:
            yield (
                f"it has a `minAccuracy` for {', '.join(sorted(least))}, and its result is for "
                f"{dataset}: add one for it, or set one number"
            )
            return
        least = least[dataset]
    accuracy = result.accuracy
    if accuracy is None:
        yield (
            f"no accuracy was reported, so `minAccuracy` {least:g} can't be judged: let its "
            "program write one (docs/results.md), or take the `minAccuracy` out"
        )
    elif beyond := _beyond(accuracy, "minAccuracy", least, ".4f"):
        # As many digits as set it apart from its limit.
        shown = f"{accuracy:.4f}" if abs(accuracy - least) >= 0.0001 else f"{accuracy!r}"
        yield f"an accuracy of {shown}, {beyond}"


def _seconds(
    what: str, value: float | None, limit: str, most: float, lacking: str
) -> Iterator[str]:
    if value is None:
        yield lacking
    elif beyond := _beyond(value, limit, most, ".1f", " s"):
        yield f"{what} of {value:g} s, {beyond}"


def _out_of_bounds(name: str, bounds: Mapping[str, float], result: RunResult) -> Iterator[str]:
    value = result.figure(name)
    if value is None:
        figures = (*sorted(FIGURES), *(result.metrics or ()))
        known = [each for each in figures if result.figure(each) is not None]
        yield (
            f"no {name} was reported, so `require` can't judge it (reported: "
            f"{', '.join(known) or 'none'}).{meant(name, known)} Let its program report one and "
            "end with `slipway.finish()` (docs/results.md), or take it out of `require`"
        )
        return
    for limit, bound in sorted(bounds.items(), reverse=True):
        if beyond := _beyond(value, limit, bound, ".4g"):
            yield f"{name} is {value:g}, {beyond}"


def _beyond(value: float, limit: str, bound: float, form: str, unit: str = "") -> str | None:
    """Return by how much a figure misses a limit, never as 0; None where it keeps to it.

    The name of a least limit begins with min. `form` is a difference's, as for `format`.
    """
    is_least = limit.startswith("min")
    if value >= bound if is_least else value <= bound:
        return None
    amount = abs(value - bound)
    shown = format(amount, form)
    shown = shown if float(shown) != 0 else f"{amount:.2g}"
    return f"which is {shown}{unit} {'less' if is_least else 'more'} than its `{limit}` {bound:g}"
