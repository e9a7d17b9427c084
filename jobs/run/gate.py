"""The resource `slipway:jobs:Gate`: an `up` fails when a run did not succeed, or not well enough.

A resource of its own beside the run, so that the run's result is kept whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from core.context import Context
from core.handler import Change, Handler, Properties, compare
from core.problem import meant
from jobs.result import FIGURES, RunResult, explain, only_known

if TYPE_CHECKING:  # It takes a second to import.
    from jobs.model.job import TrainingJob

LIMITS = ("minAccuracy", "maxDuration", "maxTimeToAccuracy", "require")
"""The inputs that `limits` returns."""


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
        result = RunResult.from_map(inputs["result"])
        if not result.succeeded:
            raise RuntimeError(explain(job, result) + _earlier(result))
        misses = list(missed(inputs, result))
        if (text := apart(inputs, result)) is not None and text not in misses:
            context.warn(f"job {job} misses {text}")
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
    bounds = {name: asdict(each, dict_factory=only_known) for name, each in job.require.items()}
    values = (job.min_accuracy, job.max_duration, job.max_time_to_accuracy, bounds or None)
    own = {} if job.distributed else {"distributed": False}
    return {**dict(zip(LIMITS, values, strict=True)), **own}


def apart(inputs: Mapping[str, Any], result: RunResult) -> str | None:
    """Return how ranks trained apart, and how to go on; None if they did not, or are meant to."""
    if (known := result.apart) is None or inputs.get("distributed") is False:
        return None
    ranks, worlds, largest = (known.get(name) for name in ("ranks", "worlds", "largest"))
    seen = f"each process group had {largest} of them at most"
    if known.get("met"):
        seen = "what they exchanged came before or after their steps, as numbers do"
    elif largest == 1:
        seen = "no process group joined them"
    elif worlds == ranks:
        seen = f"nothing went through their process group of {largest}"
    return (
        f"one training of all ranks: {ranks} ranks trained in {worlds} groups, each for itself; "
        f"{seen}. Wrap the model in DistributedDataParallel or fully_shard, or let the framework "
        "know of all pods (Lightning: `num_nodes`); if it is meant, set `distributed: false` "
        "(docs/runs.md#ranks-that-train-apart)"
    )


def missed(inputs: Mapping[str, Any], result: RunResult) -> Iterator[str]:
    """Yield each of a gate's limits that the result misses, and by how much."""
    is_judged = any(inputs.get(name) is not None for name in LIMITS)
    if is_judged and result.apart and not result.apart.get("met"):
        yield from filter(None, [apart(inputs, result)])
    least = inputs.get("minAccuracy")
    if isinstance(least, Mapping):
        # What it was really trained on counts.
        dataset, known = result.dataset or "a data set that it did not name", sorted(least)
        least = least.get(dataset)
        if least is None:
            yield (
                f"it has a `minAccuracy` for {', '.join(known)}, and its result is for {dataset}: "
                "add one for it, or set one number"
            )
    yield from _judged(
        ("an accuracy of", result.figure("accuracy"), ""),
        ("minAccuracy", least),
        "no accuracy was reported, so {} can't be judged: let its program write one "
        "(docs/results.md), or take the `minAccuracy` out",
    )
    yield from _judged(
        ("a duration of", result.duration_seconds, " s"),
        ("maxDuration", inputs.get("maxDuration")),
        "it has no duration, so {} can't be judged",
    )
    yield from _judged(
        ("a time to its goal of", result.figure("time_to_accuracy_seconds"), " s"),
        ("maxTimeToAccuracy", inputs.get("maxTimeToAccuracy")),
        f"no time to accuracy was reported, so {{}} can't be judged (its goal: "
        f"{result.goal or 'none'}): give the job a `goal` that it reaches, or let its program "
        "write time_to_accuracy_seconds (docs/results.md)",
    )
    for name, bounds in (inputs.get("require") or {}).items():
        if (value := result.figure(name)) is None:
            yield _unreported(name, result)
            continue
        for bound in sorted(bounds.items(), reverse=True):
            yield from _judged((f"{name} is", value, ""), bound)


def _unreported(name: str, result: RunResult) -> str:
    figures = (*sorted(FIGURES), *(result.metrics or ()))
    known = [each for each in figures if result.figure(each) is not None]
    return (
        f"no {name} was reported, so `require` can't judge it (reported: "
        f"{', '.join(known) or 'none'}).{meant(name, known)} Let its program report one and "
        "end with `slipway.finish()` (docs/results.md), or take it out of `require`"
    )


def _judged(
    figure: tuple[str, float | None, str], limit: tuple[str, float | None], lacking: str = ""
) -> Iterator[str]:
    """Yield by how much a figure misses a limit; the name of a least one begins with min.

    A figure is what it is called, its value and its unit. `lacking` is for one without a value.
    """
    what, value, unit = figure
    name, bound = limit
    if bound is None:
        return
    if value is None:
        yield lacking.format(f"`{name}` {bound:g}")
        return
    if not isfinite(value):
        # No comparison with NaN is true.
        yield f"{what} {value}{unit}, which is no finite number and misses its `{name}` {bound:g}"
        return
    is_least = name.startswith("min")
    if value < bound if is_least else value > bound:
        # As many digits as set it apart from its limit.
        shown = f"{value:.6g}" if f"{value:.6g}" != f"{bound:.6g}" else f"{value!r}"
        less = "less" if is_least else "more"
        yield (
            f"{what} {shown}{unit}, which is {abs(value - bound):.4g}{unit} {less} than its "
            f"`{name}` {bound:g}"
        )
