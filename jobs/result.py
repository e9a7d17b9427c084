"""A run's result: the one form that the trainer, the gate, the stack's outputs and docs share.

In a stack's state and outputs it is a map without what is not known: the engine drops nulls, so
they would differ before and after.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any, Literal

from core.fitting import fitting
from core.problem import located

State = Literal["Succeeded", "Failed", "TimedOut", "CannotStart", "Running"]
RUNNING: State = "Running"
"""Of a run that is not waited for and goes on in its cluster; it has not ended."""


@dataclass(frozen=True)
class End:
    """How a run ended, why in one line, and what the user may do about it."""

    state: State
    reason: str
    advice: str = "fix the program"


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """What rank 0's program reports of its training; all of it is optional.

    Args:
        accuracy: Share of the test set classified rightly after the last epoch, 0 to 1.
        epoch_accuracies: The same after each epoch.
        top5_accuracy: Share of the test set whose class is among the five likeliest, 0 to 1.
        class_accuracies: The accuracy of each class, by its name.
        loss: Mean training cross-entropy of the last epoch, over all ranks.
        backend: Of torch.distributed.
        dataset: The data set that was really trained on.
        device: What rank 0 computed on: cpu or cuda.
        device_name: Which GPU.
        torch: The version of torch.
        goal: The job's `goal`.
        goal_reached: Whether it was reached.
        time_to_accuracy_seconds: Seconds of training until it was.
        reformations: How often the workers of an elastic job met anew.
        longest_pause_seconds: The longest time without a step.
        step_seconds: Time in steps that are in the model, by the run that made them.
        artifacts: The files that were copied out: `url`, `sha256` and `bytes` of each.
        left_behind: Files in /work that were lost with the pod, ten at most: `bytes` of each.
        metrics: Figures of any other name that the program reports.
        epoch_metrics: Each figure's values in the epochs that have one, in their order: the latest
            1,000.
    """

    accuracy: float | None = None
    epoch_accuracies: Sequence[float] | None = None
    top5_accuracy: float | None = None
    class_accuracies: Mapping[str, float] | None = None
    loss: float | None = None
    backend: str | None = None
    dataset: str | None = None
    device: str | None = None
    device_name: str | None = None
    torch: str | None = None
    goal: str | None = None
    goal_reached: bool | None = None
    time_to_accuracy_seconds: float | None = None
    reformations: int | None = None
    longest_pause_seconds: float | None = None
    step_seconds: Mapping[str, float] | None = None
    artifacts: Mapping[str, Mapping[str, Any]] | None = None
    left_behind: Mapping[str, int] | None = None
    metrics: Mapping[str, float] | None = None
    epoch_metrics: Mapping[str, Sequence[float]] | None = None


FIGURES = frozenset({"accuracy", "top5_accuracy", "loss"})
"""Fields of a report that are figures of the model."""
_JUDGED = FIGURES | {"time_to_accuracy_seconds"}


@dataclass(frozen=True, kw_only=True)
class FailureDetails:
    """What is known of a run that did not succeed.

    Args:
        rank: The rank that failed, or that its peers waited for.
        pod: Its pod.
        container: The init container, where one failed.
        exit_code: How the container ended.
        signal: The signal that ended it.
        out_of_memory: Whether the kernel ended it at its memory limit.
        memory_limit: That limit.
        error: The program's own message.
        artifacts: The files that were copied out.
        disruption: What the cluster did that ended the run; a retry may cure it.
        stacks: Where ranks stood when they were stopped, innermost frame first, by name.
        followers: How many other replicas failed after it.
        previous_log: The last lines of its log before it was restarted.
        log: The last lines of its log.
        events: Kubernetes' warnings.
        advice: What to do.
    """

    rank: int | None = None
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    out_of_memory: bool | None = None
    memory_limit: str | None = None
    error: str | None = None
    artifacts: Mapping[str, Mapping[str, Any]] | None = None
    disruption: str | None = None
    stacks: Mapping[str, Sequence[str]] | None = None
    followers: int | None = None
    previous_log: Sequence[str] | None = None
    log: Sequence[str] | None = None
    events: Sequence[str] | None = None
    advice: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult(TrainingReport):
    """How a run ended and what it returned.

    Args:
        state: How it ended.
        reason: Why, in one line.
        run_id: Which submission it was.
        world_size: How many ranks there were.
        samples_seen: Training samples that all ranks processed.
        training_seconds: From rank 0's start to its end, as it measured itself.
        duration_seconds: From `started` to `completed`.
        started: RFC 3339, by the cluster's clock.
        completed: RFC 3339, by the cluster's clock.
        image: What the pods ran, by its digest.
        exit_codes: Each replica's exit code, by its rank or ranks.
        restarts: How many containers were started again.
        resumed_step: The step of the checkpoint that it went on from.
        failure: What is known where it did not succeed.
        attempts: The attempts before this one, oldest first.
        goodput: Share of the time since the first attempt's start that went into steps which are in
            the final model, 0 to 1.
        tracking: The address of its page on the tracking server.
        last_succeeded: Where it did not succeed, the `run_id` of the last run before it that did.
        left_out: What was reported and a result can't hold, such as NaN: its text, by its place.
        stragglers: Ranks that were slower than the others, and where the time of each went.
        apart: Where ranks trained apart from each other: how many trained (`ranks`), in how many
            groups (`worlds`), of up to how many (`largest`); with `met` they exchanged something.
    """

    state: State
    reason: str = ""
    run_id: str | None = None
    world_size: int | None = None
    samples_seen: int | None = None
    training_seconds: float | None = None
    duration_seconds: float | None = None
    started: str | None = None
    completed: str | None = None
    image: str | None = None
    exit_codes: Mapping[str, int] | None = None
    restarts: int | None = None
    resumed_step: int | None = None
    failure: FailureDetails | None = None
    attempts: Sequence[Mapping[str, Any]] | None = None
    goodput: float | None = None
    tracking: str | None = None
    last_succeeded: str | None = None
    left_out: Mapping[str, str] | None = None
    stragglers: Mapping[str, str] | None = None
    apart: Mapping[str, Any] | None = None

    @classmethod
    def from_map(cls, known: Mapping[str, Any]) -> "RunResult":
        """Return the result that a state's or an output's map holds; other keys are left out."""
        kept, lost = fitting(cls, known)
        return cls(**{**kept, "left_out": {**kept.get("left_out", {}), **lost} or None})

    def figure(self, name: str) -> float | None:
        """Return a figure by its name, whether it is a field or one of the program's own.

        One that was left out is NaN.
        """
        found = getattr(self, name, None) if name in _JUDGED else None
        found = (self.metrics or {}).get(name) if found is None else found
        is_left_out = {name, located("metrics", (name,))} & (self.left_out or {}).keys()
        return nan if found is None and is_left_out else found

    @property
    def succeeded(self) -> bool:
        return self.state == "Succeeded"

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        """The files that the run has left, also one that failed; empty for none."""
        return self.artifacts or (self.failure and self.failure.artifacts) or {}

    def as_map(self) -> dict[str, Any]:
        """Return the result as a state holds it: without what is not known."""
        return asdict(self, dict_factory=only_known)

    def __str__(self) -> str:
        if not self.succeeded:
            return f"{self.state}: {self.reason}" if self.reason else self.state
        figures = {"accuracy": self.accuracy, **(self.metrics or {})}
        known = {name: value for name, value in figures.items() if value is not None}
        shown = "".join(f", {name} {value:.6g}" for name, value in list(known.items())[:3])
        begun = "" if self.resumed_step is None else f", resumed from step {self.resumed_step}"
        return f"Succeeded in {self.duration_seconds:g} s{shown}{begun}"


def only_known(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return those fields that are known, as `dataclasses.asdict` calls it."""
    return {name: value for name, value in fields if value is not None}


def explain(job: str, result: RunResult) -> str:
    """Return the story of a job's run that did not succeed, in several lines."""
    known = FailureDetails() if result.failure is None else result.failure
    lines = [f"job {job} ended {result.state}: {result.reason}"]
    if known.error and known.error not in result.reason:
        lines.append(f"its error: {known.error}")
    if known.memory_limit and known.out_of_memory:
        lines.append(f"its memory limit: {known.memory_limit}")
    if known.disruption:
        lines.append(f"what happened: {known.disruption}")
    whose = f"rank {known.rank or 0}" if known.container is None else f"container {known.container}"
    if known.followers:
        noun = "replica" if known.followers == 1 else "replicas"
        lines.append(f"{known.followers} other {noun} failed after it")
    repeats = known.previous_log == known.log
    again = ", the same as before it was restarted" if repeats else ""
    before = None if repeats else known.previous_log
    attempts = [f"attempt {each['number']}: {each['reason']}" for each in result.attempts or ()]
    for title, texts in (
        (f"the end of {whose}'s log before it was restarted:", before),
        (f"the end of {whose}'s log{again}:", known.log),
        *((f"where {ranks} stood:", frames) for ranks, frames in (known.stacks or {}).items()),
        ("warning events:", known.events),
        ("it was submitted anew after:", attempts),
    ):
        lines += [title, *(f"    {text}" for text in texts)] if texts else []
    if known.advice:
        lines.append(f"what to do: {known.advice}")
    return "\n".join(lines)
