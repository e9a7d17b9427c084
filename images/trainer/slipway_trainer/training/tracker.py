"""What a rank does and how long that takes, told as events: MLBench's tracker, with its names.

In a training loop of one's own:

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

It works with a process group and without. An epoch's time is the host's; its parts are the GPU's
where there is one, by CUDA events, since the host only launches them.
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
    """Follows the training of one rank."""

    metrics: Sequence[Metric]
    """What validations find out."""
    run_id: str | None
    """The whole job's; events of validations and epochs name it when there is one."""
    rank: int
    goal: Goal | None = None
    """When all ranks are to stop; see `goal_reached`."""
    events: Events | None = None
    """Where to, unless to standard output."""
    total: Callable[..., list[float]] = field(default=total, kw_only=True)
    """What adds numbers up over all ranks; an elastic job's controller has its own."""

    def __post_init__(self) -> None:
        self.metrics = tuple(self.metrics)
        self.epoch = 1
        self.steps_of_epoch: int | None = None
        """How many there are, for `step` events to tell how far the epoch is; None: not known."""
        self.goal_reached = False
        """Set by the validation that reached it, so on all ranks in the same step."""
        self._events = Events(self.rank) if self.events is None else self.events
        self._run = {} if self.run_id is None else {"run_id": self.run_id}
        self._now = EpochTimings()
        self._found: dict[str, Any] = {}
        self._done: dict[str, Any] = {
            "epoch_accuracies": [], "epoch_metrics": {}, "samples_seen": 0
        }  # fmt: skip
        self._step_seconds: dict[str, float] = {}
        self._before = 0.0  # of the epoch's seconds those that went before this process
        self._began = time.monotonic()

    def start(self, elapsed: float = 0.0) -> None:
        """The run begins here, or `elapsed` seconds ago; the time to accuracy counts from then."""
        self._began = time.monotonic() - elapsed

    @property
    def mean_loss(self) -> float | None:
        """Of this rank's samples in this epoch so far; None before the first of them."""
        return self._now.mean_loss()

    def train(self) -> None:
        """From here on it trains: an epoch begins, or goes on after a validation."""
        self._now.resume()

    def validation(self) -> None:
        """From here on it doesn't train."""
        self._now.pause()

    def batch_start(self) -> None:
        """A batch is at hand; what passed since the last one went into getting it."""
        self._now.part("data")

    def record_batch_step(self, name: str) -> None:
        """A part of the step ends here: `forward`, `loss`, `backward` or any other name."""
        self._now.part(name)

    def batch_end(self, samples: int = 0) -> None:
        """The step on this rank's `samples` ends here; its last part was the optimizer."""
        self._now.part("optimizer")
        self._now.steps += 1
        self._now.samples += samples

    def record_loss(self, value: Any, n: int = 1, log_to_api: bool = False) -> None:
        """Add `value`, the sum of `n` losses or its tensor; `log_to_api` writes a `step` event."""
        now = self._now
        now.loss_sum = now.loss_sum + value
        now.loss_count += n
        if log_to_api and n > 0:
            step = max(now.steps - 1, 0)
            of = {} if self.steps_of_epoch is None else {"steps": self.steps_of_epoch}
            self._emit("step", step=step, **of, samples=now.samples, loss=float(value) / n)

    def record_validation(self, values: Mapping[str, Any], elapsed: float | None = None) -> None:
        """Take what a validation found over all ranks, now or after `elapsed` seconds."""
        step, seconds = self._now.steps, round(self.elapsed if elapsed is None else elapsed, 3)
        self._found = _rounded(
            {"test_loss" if name == "loss" else name: value for name, value in values.items()}
        )
        self._emit("validation", **self._run, step=step, **self._found, elapsed_seconds=seconds)
        if self.goal is not None and not self.goal_reached and self.goal.reached(values):
            self.goal_reached = True
            reached = {"time_to_accuracy_seconds": seconds}
            self._done |= reached
            self._emit("goal_reached", **self._run, step=step, goal=str(self.goal), **reached)

    def total_loss(self) -> float | None:
        """Return the mean of all ranks' losses in this epoch, when there are any."""
        self._now.pause()
        loss_sum, count = self.total(float(self._now.loss_sum), self._now.loss_count)
        return loss_sum / count if count else None

    def epoch_end(self, mean_loss: float | None = None) -> None:
        """End the epoch, and tell of it; all ranks call it, unless `mean_loss` is known to them."""
        self._now.pause()
        mean_loss = self.total_loss() if mean_loss is None else mean_loss
        loss = {} if mean_loss is None else {"loss": round(mean_loss, _DIGITS)}
        self._emit("epoch", **self._run, **loss, **self._found, **self._now.told())
        for name, value in (loss | self._found).items():
            if name != "accuracy" and isinstance(value, float):
                self._done["epoch_metrics"].setdefault(name, []).append(value)
        self._found.pop("test_loss", None)
        self._done |= loss | self._found
        self._done["samples_seen"] += self._now.samples
        self._step_seconds, self._before = self.step_seconds(), 0.0
        if "accuracy" in self._found:
            self._done["epoch_accuracies"].append(self._found["accuracy"])
        self.epoch += 1
        self._now, self._found = EpochTimings(), {}

    def step_seconds(self) -> dict[str, float]:
        """Return the time in steps that are in the model, by the run that made them."""
        run = self._run.get("run_id", "")
        own = self._step_seconds.get(run, 0.0) + self._now.trained() - self._before
        return {**self._step_seconds, run: own}

    def summary(self) -> dict[str, Any]:
        """Return this rank's result so far, in the form of a termination message."""
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
        """Return what `restore` goes on from, in plain values."""
        return {
            "epoch": self.epoch,
            "now": self._now.state(),
            "done": deepcopy(self._done),
            "goal_reached": self.goal_reached,
            "elapsed": self.elapsed,
            "step_seconds": self.step_seconds(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`: as if the time between had not passed."""
        self.epoch = state["epoch"]
        self._now = EpochTimings(**state["now"])
        # An older image's checkpoint has no such map.
        self._done = {"epoch_metrics": {}, **deepcopy(dict(state["done"]))}
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
    """Return a rank's state out of another number of ranks': rank 0 has all that they counted."""
    state = deepcopy(dict(states[0]))
    counted = {"now": ("samples", "loss_sum", "loss_count"), "done": ("samples_seen",)}
    for part, names in counted.items():
        for name in names:
            state[part][name] = sum(each[part][name] for each in states) if rank == 0 else 0
    return state


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with as many digits as they are worth; class by class where they are so."""
    return {
        name: _rounded(value)
        if isinstance(value, Mapping)
        else round(value, _DIGITS if "loss" in name else 4)
        for name, value in values.items()
    }
