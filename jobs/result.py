"""A run's result, in the single format that the trainer, the gate, stack outputs and docs use.

In a stack's state and outputs, a result is a map that omits unknown values: the engine drops nulls,
which would then appear as differences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any, Literal

from core.fitting import fitting
from core.problem import located

State = Literal["Succeeded", "Failed", "TimedOut", "CannotStart", "Running"]
RUNNING: State = "Running"
"""The state of a run that continues in its cluster while `up` does not wait for it."""


@dataclass(frozen=True)
class End:
    """The outcome of a run, with a one-line reason and advice for the user."""

    state: State
    reason: str
    advice: str = "fix the program"


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """Rank 0's report on its training; all fields are optional.

    Args:
        accuracy: Fraction of the test set classified correctly after the last epoch, 0 to 1.
        epoch_accuracies: The accuracy after each epoch.
        top5_accuracy: Fraction of the test set whose class is among the five likeliest, 0 to 1.
        class_accuracies: The accuracy for each class, by class name.
        loss: Mean training cross-entropy in the last epoch, over all ranks.
        backend: The torch.distributed backend.
        dataset: The data set that the run trained on.
        device: Rank 0's device: cpu or cuda.
        device_name: The GPU's name.
        torch: The version of torch.
        goal: The job's `goal`.
        goal_reached: True if the goal was reached.
        time_to_accuracy_seconds: Seconds of training until the goal was reached.
        reformations: The number of times that an elastic job's workers formed a new group.
        longest_pause_seconds: The longest time without a step.
        step_seconds: Seconds spent on the steps that led to the final model, by run ID.
        artifacts: The files copied out of the pod, with the `url`, `sha256` and `bytes` of each.
        left_behind: Files in /work that were lost with the pod, at most ten, with their sizes.
        metrics: Other metrics that the program reports, by name.
        epoch_metrics: The latest 1,000 values of each metric, in epoch order.
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
"""The report's fields that measure the model."""
_JUDGED = FIGURES | {"time_to_accuracy_seconds"}


@dataclass(frozen=True, kw_only=True)
class FailureDetails:
    """Details about a run that did not succeed.

    Args:
        rank: The rank that failed, or for which its peers were waiting.
        pod: That rank's pod.
        container: The init container, if one failed.
        exit_code: The container's exit code.
        signal: The signal that killed the container.
        out_of_memory: True if the container was killed because it exceeded its memory limit.
        memory_limit: The container's memory limit.
        error: The program's own error message.
        artifacts: The files that were copied out of the pod.
        disruption: The cluster-side disruption that ended the run; a retry may help.
        stacks: Stack traces of ranks when they were stopped, innermost frame first, by rank.
        followers: The number of other replicas that failed afterwards.
        previous_log: The last lines of the log before the container was restarted.
        log: The last lines of the log.
        events: Warnings from Kubernetes.
        advice: The recommended next step.
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
    """The outcome and results of a run.

    Args:
        state: The state in which the run ended.
        reason: The reason, in one line.
        run_id: The run's ID.
        world_size: The number of ranks.
        samples_seen: Training samples that all ranks processed.
        training_seconds: Seconds from rank 0's start to its end, as measured by rank 0.
        duration_seconds: Seconds from `started` to `completed`.
        started: The start time, in RFC 3339 format, by the cluster's clock.
        completed: The end time, in RFC 3339 format, by the cluster's clock.
        image: The pods' image, by digest.
        exit_codes: Each replica's exit code, by its rank or ranks.
        restarts: The number of container restarts.
        resumed_step: The step of the checkpoint that the run resumed from.
        failure: Details about a run that did not succeed.
        attempts: The earlier attempts, oldest first.
        goodput: Fraction of the time since the first attempt started that was spent on the steps
            that led to the final model, 0 to 1.
        tracking: The URL of the run's page on the tracking server.
        last_succeeded: The `run_id` of the latest earlier run that succeeded, if this one did not.
        left_out: Reported values that a result can't contain, such as NaN: their text, by path.
        stragglers: Ranks that were slower than the others, and how long each part of a step took.
        apart: Ranks that trained separately: their number (`ranks`), the number of groups
            (`worlds`) and the size of the largest (`largest`); `met` is true if they communicated.
        drill: The outcome of the job's `drill`: the `rank`; the `step` at which it was killed, or
            the `last_step` that it reported; the `seconds` until a rank reported a later step, and
            the number of `repeated_steps`.
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
    drill: Mapping[str, Any] | None = None

    @classmethod
    def from_map(cls, known: Mapping[str, Any]) -> "RunResult":
        """Return the result that a state or output stores as a map; unknown keys are ignored."""
        kept, lost = fitting(cls, known)
        return cls(**{**kept, "left_out": {**kept.get("left_out", {}), **lost} or None})

    def figure(self, name: str) -> float | None:
        """Return the value of a metric, which is a field or one of the program's own metrics.

        Returns NaN if the value was left out of the result, and None if it is unknown.
        """
        value = getattr(self, name, None) if name in _JUDGED else None
        value = (self.metrics or {}).get(name) if value is None else value
        is_left_out = {name, located("metrics", (name,))} & (self.left_out or {}).keys()
        return nan if value is None and is_left_out else value

    @property
    def succeeded(self) -> bool:
        return self.state == "Succeeded"

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        """The files that the run produced, even if it failed; empty if there are none."""
        return self.artifacts or (self.failure and self.failure.artifacts) or {}

    def as_map(self) -> dict[str, Any]:
        """Return the result as stored in a state, without unknown values."""
        return asdict(self, dict_factory=only_known)

    def __str__(self) -> str:
        if not self.succeeded:
            return f"{self.state}: {self.reason}" if self.reason else self.state
        figures = {"accuracy": self.accuracy, **(self.metrics or {})}
        reported = {name: value for name, value in figures.items() if value is not None}
        shown = "".join(f", {name} {value:.6g}" for name, value in list(reported.items())[:3])
        begun = "" if self.resumed_step is None else f", resumed from step {self.resumed_step}"
        if seconds := (self.drill or {}).get("seconds"):
            begun += f", drill: recovered in {seconds:.0f} s"
        return f"Succeeded in {self.duration_seconds:g} s{shown}{begun}"


def only_known(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields that are known; a `dict_factory` for `dataclasses.asdict`."""
    return {name: value for name, value in fields if value is not None}


def explain(job: str, result: RunResult) -> str:
    """Describe a run that did not succeed, in several lines."""
    facts = FailureDetails() if result.failure is None else result.failure
    lines = [f"job {job} ended {result.state}: {result.reason}"]
    if facts.error and facts.error not in result.reason:
        lines.append(f"its error: {facts.error}")
    if facts.memory_limit and facts.out_of_memory:
        lines.append(f"its memory limit: {facts.memory_limit}")
    # An evicted pod and its condition have the same message, after the condition's reason.
    text = (facts.disruption or "").rstrip(" .)")
    if text and (text.partition(": ")[2] or text) not in result.reason:
        lines.append(f"what happened: {facts.disruption}")
    whose = f"rank {facts.rank or 0}" if facts.container is None else f"container {facts.container}"
    if facts.followers:
        noun = "replica" if facts.followers == 1 else "replicas"
        lines.append(f"{facts.followers} other {noun} failed afterwards")
    if "step" in (drill := result.drill or {}) and "seconds" not in drill:
        what = f"killed rank {drill['rank']} at step {drill['step']}"
        lines.append(f"its drill {what}, and no rank reported a later step")
    repeats = facts.previous_log == facts.log
    again = ", the same as before it was restarted" if repeats else ""
    before = None if repeats else facts.previous_log
    attempts = [f"attempt {each['number']}: {each['reason']}" for each in result.attempts or ()]
    for title, texts in (
        (f"the end of {whose}'s log before it was restarted:", before),
        (f"the end of {whose}'s log{again}:", facts.log),
        *((f"stack trace of {ranks}:", frames) for ranks, frames in (facts.stacks or {}).items()),
        ("warning events:", facts.events),
        ("it was resubmitted after:", attempts),
    ):
        lines += [title, *(f"    {text}" for text in texts)] if texts else []
    if facts.advice:
        lines.append(f"what to do: {facts.advice}")
    return "\n".join(lines)
