"""Report a rank's progress and timings as events, with the interface of MLBench's tracker.

In your own training loop:

    tracker = Tracker([TopKAccuracy(1), TopKAccuracy(5)], run_id, rank, goal=goal)
    tracker.start()
    for epoch in range(epochs):
        tracker.train()
        for data, target in batches:
            tracker.batch_start()
            loss = loss_function(model(data), target)
            tracker.record_batch_step("forward")
            loss.backward()
            tracker.record_batch_step("backward")
            optimizer.step()
            tracker.batch_end(len(target))
            tracker.record_loss(loss.item() * len(target), len(target))
        validation_round(test_batches, model, loss_function, metrics, run_id, rank, tracker=tracker)
        tracker.epoch_end()
        if tracker.goal_reached:
            break

It works with or without a process group. An epoch is timed on the host; with a GPU, its parts are
timed by CUDA events, since the host only launches them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from slipway.events import Events
from slipway_trainer.training.distributed import total
from slipway_trainer.training.goals import Goal
from slipway_trainer.training.metrics import Metric
from slipway_trainer.training.timings import EpochTimings

_DIGITS = 6


@dataclass(eq=False)
class Tracker:
    """Tracks one rank's training."""

    metrics: Sequence[Metric]
    """The metrics for validations."""
    run_id: str | None
    """The job's run ID; if set, validation and epoch events contain it."""
    rank: int
    goal: Goal | None = None
    """The goal at which all ranks stop; see `goal_reached`."""
    events: Events | None = None
    """The destination for events; standard output by default."""
    total: Callable[..., list[float]] = field(default=total, kw_only=True)
    """A function that sums numbers over all ranks; an elastic job's controller sets its own."""

    def __post_init__(self) -> None:
        self.metrics = tuple(self.metrics)
        self.epoch = 1
        self.steps_of_epoch: int | None = None
        """The number of steps in the epoch, for `step` events; None if unknown."""
        self.goal_reached = False
        """True once a validation has reached the goal, on all ranks after the same step."""
        self._events = Events(self.rank) if self.events is None else self.events
        self._run = {} if self.run_id is None else {"run_id": self.run_id}
        self._now = EpochTimings()
        self._values: dict[str, Any] = {}
        self._done: dict[str, Any] = {
            "epoch_accuracies": [], "epoch_metrics": {}, "samples_seen": 0
        }  # fmt: skip
        self._step_seconds: dict[str, float] = {}
        self._before = 0.0  # seconds spent in the epoch before this process
        self._began = time.monotonic()

    def start(self, elapsed: float = 0.0) -> None:
        """Set the run's start to now, or `elapsed` seconds ago, to measure the time to accuracy."""
        self._began = time.monotonic() - elapsed

    @property
    def mean_loss(self) -> float | None:
        """The mean loss of this rank's samples so far in this epoch, or None if there are none."""
        return self._now.mean_loss()

    def train(self) -> None:
        """Start or resume training: at the start of an epoch, or after a validation."""
        self._now.resume()

    def validation(self) -> None:
        """Pause training for validation."""
        self._now.pause()

    def batch_start(self) -> None:
        """Record that a batch is loaded; the time since the last step was spent on this."""
        self._now.part("data")

    def record_batch_step(self, name: str) -> None:
        """Record that a part of the step ended: `forward`, `loss`, `backward` or any other name."""
        self._now.part(name)

    def batch_end(self, samples: int = 0) -> None:
        """Record the end of a step with `samples` samples; its last part counts as `optimizer`."""
        self._now.part("optimizer")
        self._now.steps += 1
        self._now.samples += samples

    def record_loss(self, value: Any, n: int = 1, log_to_api: bool = False) -> None:
        """Add `value`, the sum of `n` losses; `log_to_api` emits their mean as a `step` event."""
        now = self._now
        now.loss_sum = now.loss_sum + value
        now.loss_count += n
        if log_to_api and n > 0:
            step = max(now.steps - 1, 0)
            of = {} if self.steps_of_epoch is None else {"steps": self.steps_of_epoch}
            self._emit("step", step=step, **of, samples=now.samples, loss=float(value) / n)

    def record_validation(self, values: Mapping[str, Any], elapsed: float | None = None) -> None:
        """Record a validation's values, which are computed over all ranks.

        The validation ended after `elapsed` seconds of the run, or now if that is None.
        """
        step, seconds = self._now.steps, round(self.elapsed if elapsed is None else elapsed, 3)
        self._values = _rounded(
            {"test_loss" if name == "loss" else name: value for name, value in values.items()}
        )
        self._emit("validation", **self._run, step=step, **self._values, elapsed_seconds=seconds)
        if self.goal is not None and not self.goal_reached and self.goal.reached(values):
            self.goal_reached = True
            reached = {"time_to_accuracy_seconds": seconds}
            self._done |= reached
            self._emit("goal_reached", **self._run, step=step, goal=str(self.goal), **reached)

    def total_loss(self) -> float | None:
        """Return the mean of all ranks' losses in this epoch, or None if there are none."""
        self._now.pause()
        loss_sum, count = self.total(float(self._now.loss_sum), self._now.loss_count)
        return loss_sum / count if count else None

    def epoch_end(self, mean_loss: float | None = None) -> None:
        """End the epoch and report it. All ranks must call this, unless they pass `mean_loss`."""
        self._now.pause()
        mean_loss = self.total_loss() if mean_loss is None else mean_loss
        loss = {} if mean_loss is None else {"loss": round(mean_loss, _DIGITS)}
        self._emit("epoch", **self._run, **loss, **self._values, **self._now.event_fields())
        for name, value in (loss | self._values).items():
            if name != "accuracy" and isinstance(value, float):
                self._done["epoch_metrics"].setdefault(name, []).append(value)
        self._values.pop("test_loss", None)
        self._done |= loss | self._values
        self._done["samples_seen"] += self._now.samples
        self._step_seconds, self._before = self.step_seconds(), 0.0
        if "accuracy" in self._values:
            self._done["epoch_accuracies"].append(self._values["accuracy"])
        self.epoch += 1
        self._now, self._values = EpochTimings(), {}

    def step_seconds(self) -> dict[str, float]:
        """Return the seconds spent on the steps that the model results from, keyed by run ID."""
        run = self._run.get("run_id", "")
        own = self._step_seconds.get(run, 0.0) + self._now.trained() - self._before
        return {**self._step_seconds, run: own}

    def summary(self) -> dict[str, Any]:
        """Return this rank's result so far, in the format of a termination message."""
        goal = {"goal": str(self.goal), "goal_reached": self.goal_reached} if self.goal else {}
        return {
            "rank": self.rank,
            "world_size": dist.get_world_size() if dist.is_initialized() else 1,
            **self._done,
            **goal,
            "step_seconds": {run: round(each, 3) for run, each in self.step_seconds().items()},
            "duration_seconds": round(self.elapsed, 3),
        }

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`, as plain values."""
        return {
            "epoch": self.epoch,
            "now": self._now.state(),
            "done": deepcopy(self._done),
            "goal_reached": self.goal_reached,
            "elapsed": self.elapsed,
            "step_seconds": self.step_seconds(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`, without counting the time since it was saved."""
        self.epoch = state["epoch"]
        self._now = EpochTimings(**state["now"])
        self._done = deepcopy(dict(state["done"]))
        self.goal_reached = state["goal_reached"]
        self._began = time.monotonic() - state["elapsed"]
        self._step_seconds, self._before = dict(state["step_seconds"]), self._now.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def _emit(self, event: str, **values: Any) -> None:
        self._events.emit(event, epoch=self.epoch, **values)


def regrouped(states: Sequence[Mapping[str, Any]], rank: int) -> dict[str, Any]:
    """Return a rank's state after the number of ranks has changed; rank 0 gets all counts."""
    state = deepcopy(dict(states[0]))
    counted = {"now": ("samples", "loss_sum", "loss_count"), "done": ("samples_seen",)}
    for part, names in counted.items():
        for name in names:
            state[part][name] = sum(each[part][name] for each in states) if rank == 0 else 0
    return state


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Round the values, including those by class, to significant digits."""
    return {
        name: _rounded(value)
        if isinstance(value, Mapping)
        else round(value, _DIGITS if "loss" in name else 4)
        for name, value in values.items()
    }
