"""Wrap a training step so that it survives the loss of workers, and admits new ones.

At the end of each backward pass, the gradients are averaged over the current workers, so clipping
or a GradScaler sees the same gradients on all of them. If a worker is lost, averaging fails on all
others; they form a new world, continue from the state of the most advanced worker, and repeat the
step. An index counts if and only if its step is part of the model with which all continue.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import nn
from torch.autograd import Variable

from slipway_trainer.data.index_service import RecordIndexService
from slipway_trainer.elastic import world
from slipway_trainer.elastic.replica import Change, Replica, Shared, Stateful
from slipway_trainer.elastic.world import Bucket, WorldChanged
from slipway_trainer.training.distributed import total

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass
class _Step:
    """The step that is in progress with the other workers."""

    began: float
    is_queued: bool = False
    """True if averaging is queued for the end of the current backward pass."""
    is_averaged: bool = False
    is_counted: bool = False
    grows: bool = False
    """True if new workers join after this step."""


@dataclass(eq=False)
class PyTorchAllReduceController:
    """Coordinates this worker with the other workers in an elastic job.

    Raises `ValueError` if environment variables about the workers are invalid, `TimeoutError` if
    too few workers join in time, and `RuntimeError` if workers are lost too often.
    """

    service: RecordIndexService
    """Assigns the indices to train on."""
    on_change: Callable[[Change], None] = lambda change: None  # noqa: ARG005
    """Called with each new world once this worker has joined it."""
    step_timeout: timedelta = timedelta(seconds=8)
    """Time after which a collective operation considers a worker lost. No worker may take longer
    than this between two such operations."""
    join_timeout: timedelta = timedelta(minutes=5)
    """Time limit for enough workers to join, at the start and after losing workers."""

    def __post_init__(self) -> None:
        self._parts: dict[str, Stateful] = {}
        self._bucket = Bucket([])
        self._replica: Replica | None = None
        self._step: _Step | None = None
        self._last_step: float | None = None
        self._pause = 0.0
        self._looked_out = 0.0

    @property
    def rank(self) -> int:
        """This worker's rank in the world, or `size` if others completed the job without it."""
        return self._inside.rank

    @property
    def size(self) -> int:
        """The number of workers in the world."""
        return self._inside.size

    @property
    def shared(self) -> Shared:
        """The state that all workers share."""
        return self._inside.shared

    @property
    def _inside(self) -> Replica:
        if self._replica is None:
            raise RuntimeError("the elastic world exists only inside `with controller.scope()`")
        return self._replica

    def set_broadcast_model(self, model: nn.Module) -> None:
        """Set the model that all workers train."""
        self._parts["model"] = model

    def set_broadcast_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Set the optimizer that all workers use; it sees averaged gradients."""
        self._parts["optimizer"] = optimizer
        bucket = Bucket([each for group in optimizer.param_groups for each in group["params"]])
        for parameter in bucket.parameters:
            parameter.register_post_accumulate_grad_hook(lambda _: self._queue())
        self._bucket = bucket
        optimizer.register_step_post_hook(lambda *_: self._stepped())

    def set_broadcast_state(self, **parts: Stateful) -> None:
        """Set other objects, as keyword arguments, whose state changes with each step.

        For example, a learning rate scheduler, a GradScaler, or an average of the weights. A new
        worker receives their state along with the model's. Raises `ValueError` if an object lacks
        `state_dict` or `load_state_dict`, or if its name is reserved.
        """
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise ValueError(
                    f"{name}, a {type(part).__name__}, must have state_dict and load_state_dict"
                )
            if name in {"model", "optimizer"}:
                raise ValueError(f"{name}: use set_broadcast_{name}")
        self._parts.update(parts)

    def elastic_run(self, step: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Return an elastic version of `step`, which must make one optimizer step with one batch.

        If a worker is lost, `step` is called again with the same batch. If the other workers have
        already counted that batch, `step` is called only for its return value, and its changes are
        rolled back. Raises `RuntimeError` if `step` runs no backward pass or makes two optimizer
        steps.
        """

        @wraps(step)
        def elastic_step(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            while self.service.in_hand:
                self._step = current = _Step(time.monotonic())
                try:
                    result = step(*args, **kwargs)
                except WorldChanged as change:
                    self._bucket.withdraw()
                    self._inside.form(str(change))
                    continue
                finally:
                    self._step = None
                if not current.is_averaged:
                    raise RuntimeError(
                        "the function passed to elastic_run ran no backward pass through any of "
                        "the optimizer's parameters"
                    )
                if not current.is_counted:
                    # All workers had the same gradients, so all skipped the step (GradScaler).
                    self._count(current)
                self._inside.checkpoint()
                if current.grows:
                    self._inside.form("")
                return result
            # The others took this step, perhaps long ago, so this is not a pause by this worker.
            self._last_step = None
            with self._inside.unchanged():
                result = step(*args, **kwargs)
            self._bucket.withdraw()
            return result

        return elastic_step

    def sum(self, *values: float) -> list[float]:
        """Return `values`, each summed over all workers in double precision, for use in `agree`."""
        return world.collective(lambda: total(*values))

    def agree(self, key: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or the one that other workers have agreed on under `key`.

        `work` is called again if the world changes while it runs, and must return the same JSON
        value on all workers.
        """
        while key not in self.shared.agreed:
            try:
                result = work()
            except WorldChanged as change:
                self._inside.form(str(change))
                continue
            self.shared.agreed[key] = result
            self.service.ledger.version += 1
        # The time was spent on work, so it is not a pause.
        self._last_step = None
        agreed: Result = self.shared.agreed[key]
        return agreed

    @contextmanager
    def scope(self) -> Iterator["PyTorchAllReduceController"]:
        """Participate in the world, from the rendezvous until all workers are done."""
        model = self._parts.get("model")
        if not isinstance(model, nn.Module) or "optimizer" not in self._parts:
            raise RuntimeError("call set_broadcast_model and set_broadcast_optimizer before scope")
        device, limits = next(model.parameters()).device, (self.step_timeout, self.join_timeout)
        replica = Replica(self.service, self._parts, self.on_change, *limits, device)
        with closing(replica) as self._replica:
            self._replica.resume()
            self._replica.form("")
            yield self
            self._replica.finish(self._pause)

    def _queue(self) -> None:
        """Queue averaging for the end of a backward pass, once its first gradient is ready."""
        if self._step is not None and not self._step.is_queued:
            self._step.is_queued = True
            # As DistributedDataParallel and FSDP do; autograd has no public name for it.
            average = partial(self._average, self._step)
            Variable._execution_engine.queue_callback(average)  # noqa: SLF001

    def _average(self, step: _Step) -> None:
        """Set the parameters' gradients to the mean over all workers, after a backward pass."""
        step.is_queued = False
        own, planned = len(self.service.share()), self.service.planned
        samples, grows = self._bucket.average(own, self._look_out())
        if samples != planned:
            raise RuntimeError(
                f"step {self.service.ledger.step} summed the gradients from {samples} samples, "
                f"but {planned} samples were planned"
            )
        step.is_averaged, step.grows = True, step.grows or grows

    def _stepped(self) -> None:
        """Count a step's indices, after the optimizer has stepped."""
        if self._step is None or not self._step.is_averaged:
            return
        if self._step.is_counted:
            raise RuntimeError("the function passed to elastic_run performed two optimizer steps")
        self._count(self._step)

    def _count(self, step: _Step) -> None:
        step.is_counted = True
        self.service.made_step()
        now = time.monotonic()
        run, spent = os.environ.get("SLIPWAY_RUN_ID", ""), self.shared.step_seconds
        spent[run] = spent.get(run, 0.0) + now - step.began
        if self._last_step is not None:
            self._pause = max(self._pause, now - self._last_step)
        self._last_step = now

    def _look_out(self) -> bool:
        """Return whether new workers are waiting to join here; checks only every half second."""
        if time.monotonic() < self._looked_out + 0.5:
            return False
        self._looked_out = time.monotonic()
        return self._inside.rendezvous.newcomers()
