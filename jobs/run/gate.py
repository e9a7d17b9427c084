"""The resource `slipway:jobs:Gate`: fails `up` if a run failed or did not meet a limit.

It is separate from the run's resource, so that the run's result is always kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from core.context import Context
from core.handler import Change, Handler, Properties, differences
from core.problem import meant
from jobs.records import archive
from jobs.records.events import likeness
from jobs.result import FIGURES, RUNNING, RunResult, explain, only_known

if TYPE_CHECKING:  # Importing it takes a second.
    from jobs.model.job import TrainingJob

LIMITS = ("minAccuracy", "maxDuration", "maxTimeToAccuracy", "require", "drill")
"""The inputs that `limits` returns."""


class GateHandler(Handler):
    """Handler for a gate, which is in the stack's state only if the run's result passed."""

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Replace the gate if the result or limits changed, so that it checks again."""
        changed = {change.path.split(".")[0] for change in differences(state, inputs)}
        return [Change(path, replace=True) for path in sorted(changed)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Pass if the run succeeded and met its limits.

        Raises:
            RuntimeError: the run did not succeed (with details), or did not meet some limits (each
                with the difference).
        """
        job = inputs["job"]
        if inputs.get("result") is None:
            # With PULUMI_CONTINUE_ON_ERROR the engine continues after an error.
            raise RuntimeError(f"job {job} has no result: its run did not finish")
        result = RunResult.from_map(inputs["result"])
        if result.state == RUNNING:
            context.info(f"job {job} continues in its cluster: its limits are checked when it ends")
            return job, {}
        judge(inputs, result, archive.of_urn(context.urn).run(result.run_id or ""), context.warn)
        return job, {}


def judge(
    inputs: Mapping[str, Any],
    result: RunResult,
    kept: archive.Run,
    warn: Callable[[str], None],
    then: str = "Its result is kept, and it is not trained again:",
) -> None:
    """Raise the same exceptions as `GateHandler.create` unless a run succeeded and met its limits.

    `kept` contains the run's logs, and `then` introduces the advice if it did not meet a limit.
    """
    job = inputs["job"]
    if not result.succeeded:
        raise RuntimeError(explain(job, result))
    misses = [*missed(inputs, result, partial(likeness, kept))]
    text = apart(inputs, result)
    if text is not None and text not in (each.text for each in misses):
        warn(f"job {job} lacks {text}")
    if misses:
        listed = "".join(f"\n  {each.text}" for each in misses)
        what = (
            f"a limit: {misses[0].text}" if len(misses) == 1 else f"{len(misses)} limits:{listed}"
        )
        raise RuntimeError(f"job {job} succeeded, but did not meet {what}\n{then} {advice(misses)}")


def limits(job: TrainingJob) -> dict[str, Any]:
    """Return a job's limits in the form that `missed` expects; None means no limit."""
    bounds = {name: asdict(each, dict_factory=only_known) for name, each in job.require.items()}
    drill = None if job.drill is None else asdict(job.drill)
    values = (job.min_accuracy, job.max_duration, job.max_time_to_accuracy, bounds or None, drill)
    own = {} if job.distributed else {"distributed": False}
    return {**dict(zip(LIMITS, values, strict=True)), **own}


def apart(inputs: Mapping[str, Any], result: RunResult) -> str | None:
    """Describe ranks that trained separately, with advice.

    Returns None if there are none, or if this was intended.
    """
    if (groups := result.apart) is None or inputs.get("distributed") is False:
        return None
    ranks, worlds, largest = (groups.get(name) for name in ("ranks", "worlds", "largest"))
    detail = f"each process group had at most {largest} of them"
    if groups.get("met"):
        detail = "they exchanged data only before or after their steps, as for metrics"
    elif largest == 1:
        detail = "no process group joined them"
    elif worlds == ranks:
        detail = f"nothing was sent through their process group of {largest}"
    return (
        f"joint training of all ranks: {ranks} ranks trained in {worlds} independent groups; "
        f"{detail}. Wrap the model in DistributedDataParallel or fully_shard, or configure the "
        "framework for all pods (Lightning: `num_nodes`); if this is intended, set `distributed: "
        "false` (docs/runs.md#ranks-that-train-apart)"
    )


class Miss(NamedTuple):
    """A limit that a result does not meet, with the difference, or one that can't be checked."""

    text: str
    is_judged: bool = False


def advice(misses: Iterable[Miss]) -> str:
    """Return advice for all `misses`; changing settings helps only if a metric was reported."""
    is_judged = any(each.is_judged for each in misses)
    return "change its settings or the limit" if is_judged else "follow the advice above"


def missed(
    inputs: Mapping[str, Any], result: RunResult, like: Callable[[str], str] = lambda _: ""
) -> Iterator[Miss]:
    """Yield each limit that the result does not meet.

    `like` returns output that resembles a metric that was not reported.
    """
    is_judged = any(inputs.get(name) is not None for name in LIMITS)
    text = apart(inputs, result)
    if is_judged and text is not None and not (result.apart or {}).get("met"):
        yield Miss(text)
    least = inputs.get("minAccuracy")
    if isinstance(least, Mapping):
        # The limit is the one for the data set that the run actually used.
        dataset, names = result.dataset or "a data set that it did not name", sorted(least)
        least = least.get(dataset)
        if least is None:
            yield Miss(
                f"its `minAccuracy` is for {', '.join(names)}, but its result is for {dataset}: "
                "add a limit for that data set, or set a single number"
            )
    yield from _judged(
        ("an accuracy of", result.figure("accuracy"), ""),
        ("minAccuracy", least),
        lambda limit: _unreported("accuracy", limit, result, like),
    )
    yield from _judged(
        ("a duration of", result.duration_seconds, " s"),
        ("maxDuration", inputs.get("maxDuration")),
        lambda limit: Miss(f"the result has no duration, so {limit} can't be checked"),
    )
    yield from _judged(
        ("a time-to-goal of", result.figure("time_to_accuracy_seconds"), " s"),
        ("maxTimeToAccuracy", inputs.get("maxTimeToAccuracy")),
        lambda limit: Miss(
            f"no time to accuracy was reported, so {limit} can't be checked (its goal: "
            f"{result.goal or 'none'}): set a `goal` that the job reaches, or have its program "
            "report time_to_accuracy_seconds (docs/results.md)"
        ),
    )
    for name, bounds in (inputs.get("require") or {}).items():
        if (value := result.figure(name)) is None:
            yield _unreported(name, "`require`", result, like)
            continue
        for bound in sorted(bounds.items(), reverse=True):
            yield from _judged((f"{name} is", value, ""), bound)
    if (drill := inputs.get("drill")) is not None:
        yield from _recovery(drill, result.drill or {})


def _recovery(drill: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Miss]:
    """Yield the reasons why a drill failed; `seen` is the drill's outcome."""
    rank, step = drill["rank"], seen.get("step")
    if step is None:
        last = seen.get("last_step")
        reported = "none at all" if last is None else f"{last} was its last one"
        yield Miss(
            f"its `drill`, which did not take place: rank {rank} reported no step "
            f"{drill['step']} or later ({reported}). Choose an earlier step, or have that rank "
            "report its steps, for example with `slipway.log(step=…)` (docs/results.md)"
        )
    elif (seconds := seen.get("seconds")) is None:
        yield Miss(
            f"its `drill`: no rank reported a step after step {step}, at which rank {rank} was "
            "killed. Choose an earlier step"
        )
    else:
        figure = ("a recovery from its `drill` of", seconds, " s")
        yield from _judged(figure, ("within", drill["within"]))


def _unreported(name: str, limit: str, result: RunResult, like: Callable[[str], str]) -> Miss:
    figures = (*sorted(FIGURES), *(result.metrics or ()))
    reported = [each for each in figures if result.figure(each) is not None]
    what = "have its program report one (docs/results.md), or remove the limit"
    if hint := like(name):
        what = f"its log contains {hint} to the job, which does not run it again"
    return Miss(
        f"no {name} was reported, so {limit} can't be checked (reported: "
        f"{', '.join(reported) or 'none'}).{meant(name, reported)} {what[0].upper()}{what[1:]}"
    )


def _judged(
    figure: tuple[str, float | None, str],
    limit: tuple[str, float | None],
    lacking: Callable[[str], Miss] = Miss,
) -> Iterator[Miss]:
    """Yield a `Miss` that states how far a metric is from its limit, if it does not meet the limit.

    `figure` is the metric's description, value and unit; `limit` is a name, which begins with "min"
    for a lower limit, and a value. `lacking` handles a metric without a value.
    """
    what, value, unit = figure
    name, bound = limit
    if bound is None:
        return
    shown_limit = f"`{name}` {bound:g}"
    if value is None:
        yield lacking(shown_limit)
    elif not isfinite(value):
        # No comparison with NaN is true.
        text = f"{what} {value}{unit}, which is not finite and so can't meet its {shown_limit}"
        yield Miss(text, is_judged=True)
    elif value < bound if name.startswith("min") else value > bound:
        # With enough digits to differ from its limit.
        shown = f"{value:.6g}" if f"{value:.6g}" != f"{bound:.6g}" else f"{value!r}"
        less = "less" if name.startswith("min") else "more"
        by = f"{abs(value - bound):.4g}{unit} {less}"
        text = f"{what} {shown}{unit}, which is {by} than its {shown_limit}"
        yield Miss(text, is_judged=True)
