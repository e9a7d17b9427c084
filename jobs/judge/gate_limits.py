"""The limits of a job's gate, and by how much a result misses them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobs.result import RunResult

if TYPE_CHECKING:
    from jobs.spec import TrainingJob

LIMITS = ("minAccuracy", "maxDuration", "maxTimeToAccuracy", "require")
"""Fields of a job's declaration that are its gate's."""


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
        yield from _too_long("maxDuration", most, "a duration", result.duration_seconds)
    if (most := inputs.get("maxTimeToAccuracy")) is not None:
        found = result.time_to_accuracy_seconds
        if found is None:
            yield _NO_TIME.format(most, result.goal or "none")
        else:
            yield from _too_long("maxTimeToAccuracy", most, "a time to its goal", found)

    for name, bounds in (inputs.get("require") or {}).items():
        yield from _out_of_bounds(name, bounds, result)


def _out_of_bounds(name: str, bounds: Mapping[str, float], result: RunResult) -> Iterator[str]:
    value = result.figure(name)
    if value is None:
        known = ", ".join(result.metrics or ()) or "none"
        yield (
            f"no {name} was reported, so `require` can't judge it (its metrics: {known}): let its "
            "program write one (docs/results.md), or take it out of `require`"
        )
        return
    least, most = bounds.get("min"), bounds.get("max")
    if least is not None and not value >= least:
        yield f"{name} is {value:g}, which is {least - value:.4g} less than its `min` {least:g}"
    if most is not None and not value <= most:
        yield f"{name} is {value:g}, which is {value - most:.4g} more than its `max` {most:g}"


_NO_TIME = (
    "no time to accuracy was reported, so `maxTimeToAccuracy` {:g} can't be judged (its goal: {}): "
    "give the job a `goal` that it reaches, or let its program write time_to_accuracy_seconds "
    "(docs/results.md)"
)


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


def _figure(value: float, limit: float) -> str:
    """Return a figure with as many digits as set it apart from its limit."""
    return f"{value:.4f}" if abs(value - limit) >= _SMALLEST else f"{value!r}"


def _difference(amount: float, digits: int = 4) -> str:
    """Return by how much a limit was missed, never as 0."""
    return f"{amount:.{digits}f}" if amount >= 10**-digits else f"{amount:.2g}"


_SMALLEST = 0.0001
