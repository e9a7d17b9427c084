"""Wraps a training step so that it outlives the loss of workers, and takes new ones in.

The optimizer's step averages the gradients over the workers there are. When a worker is lost, that
fails on all others; they come together again, go on from the state of the one that is furthest,
and make the step once more. Model, optimizer and ledger are one state: an index counts exactly
when the step that it was in is part of the model that all go on with.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from slipway_trainer.elastic import world
from slipway_trainer.elastic.gradients import Bucket, Reduced
from slipway_trainer.elastic.membership import Limits
from slipway_trainer.elastic.replica import Replica
from slipway_trainer.elastic.service import RecordIndexService
from slipway_trainer.elastic.shared import Change, Shared
from slipway_trainer.elastic.world import WorldChanged

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOOK_OUT_SECONDS = 0.5


class PyTorchAllReduceController:
    """What keeps the workers of an elastic job together.

    Args:
        service: Hands out the indices to train on.
        on_change: Called with each world that formed, once this worker is in it.
        step_timeout: How long a collective operation waits for a worker until it counts as lost.
            No worker may take longer between two of them.
        join_timeout: How long to wait for enough workers, at the start and after losses.

    Raises:
        ValueError: the environment says nothing sensible about the other workers.
        TimeoutError: too few of them came in time.
        RuntimeError: they were lost too often.
    """

    def __init__(
        self,
        service: RecordIndexService,
        on_change: Callable[[Change], None] = lambda change: None,  # noqa: ARG005
        step_timeout: timedelta = timedelta(seconds=8),
        join_timeout: timedelta = timedelta(minutes=5),
    ) -> None:
        self._service = service
        self._on_change = on_change
        self._limits = Limits(step_timeout, join_timeout)
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._replica: Replica | None = None
        self._reduced: Reduced | None = None
        self._added = 0.0
        self._counts = True
        self._last_step: float | None = None
        self._pause = 0.0
        self._looked_out = 0.0

    @property
    def rank(self) -> int:
        """This worker's rank in the world; `size` where the job was done without this worker."""
        return self._inside.rank

    @property
    def size(self) -> int:
        """How many workers the world has."""
        return self._inside.size

    @property
    def shared(self) -> Shared:
        """What all workers know alike."""
        return self._inside.shared

    @property
    def _inside(self) -> Replica:
        if self._replica is None:
            raise RuntimeError("the elastic world is there once `controller.scope()` is entered")
        return self._replica

    def set_broadcast_model(self, model: nn.Module) -> None:
        """Have all workers train `model`."""
        self._model = model

    def set_broadcast_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Have all workers step `optimizer`; each of its steps averages the gradients first."""
        self._optimizer = optimizer
        self._bucket = Bucket(
            [each for group in optimizer.param_groups for each in group["params"]]
        )
        optimizer.register_step_pre_hook(lambda *_: self._average())
        optimizer.register_step_post_hook(lambda *_: self._count())

    def elastic_run(self, step: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Return `step`, made elastic: a function that trains on one batch and steps once.

        When a worker is lost meanwhile, it is called again with the same batch. Was that batch
        already counted by the others, it is called without effect, for what it returns.
        """

        @wraps(step)
        def elastic_step(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            while True:
                self._begin_step()
                try:
                    result = step(*args, **kwargs)
                except WorldChanged as change:
                    self._bucket.withdraw()
                    self._inside.form(str(change))
                    if not self._service.in_hand:
                        # The others made this step, perhaps long ago: theirs is the pause.
                        self._last_step = None
                    continue
                if self._counts and self._reduced is None:
                    raise RuntimeError("the function given to elastic_run made no optimizer step")
                if self._reduced is not None and self._reduced.flags:
                    self._inside.form("")
                return result

        return elastic_step

    def add(self, value: float) -> None:
        """Add to `shared.total` with this step, for example the sum of the batch's losses."""
        self._added += value

    def sum(self, *values: float) -> list[float]:
        """Return each of `values` summed over all workers, in double precision; for `agree`."""
        totals = torch.tensor(values, dtype=torch.float64)
        world.collective(lambda: dist.all_reduce(totals))
        summed: list[float] = totals.tolist()
        return summed

    def agree(self, key: str, work: Callable[[], Result]) -> Result:
        """Return what `work` returned on this worker, or what the others had agreed on under `key`.

        It is called again when the world changed meanwhile, and must return the same on all
        workers: something that JSON can hold.
        """
        while key not in self.shared.agreed:
            try:
                result = work()
            except WorldChanged as change:
                self._inside.form(str(change))
                continue
            self.shared.agreed[key] = result
            self._service.ledger.version += 1
        # What took this time was work, no pause.
        self._last_step = None
        agreed: Result = self.shared.agreed[key]
        return agreed

    @contextmanager
    def scope(self) -> Iterator["PyTorchAllReduceController"]:
        """Be in the world: from the rendezvous to the point where all workers are done."""
        if self._model is None or self._optimizer is None:
            raise RuntimeError("call set_broadcast_model and set_broadcast_optimizer before scope")
        try:
            self._replica = Replica(
                self._service, self._model, self._optimizer, self._limits, self._on_change
            )
            self._replica.form("")
            yield self
            self._replica.finish(self._pause)
        finally:
            # The others notice at once, and Gloo's threads must not outlive the interpreter.
            world.leave()

    def _begin_step(self) -> None:
        # The world may have changed since the batch was handed out.
        self._counts = self._service.in_hand
        self._reduced, self._added = None, 0.0

    def _average(self) -> None:
        """Before the optimizer's step: give all workers' mean gradients to the parameters."""
        if not self._counts:
            self._bucket.withdraw()
            return
        samples = len(self._service.share())
        self._reduced = self._bucket.average(samples, self._look_out(), self._added)

    def _count(self) -> None:
        """After the optimizer's step: its indices are in the model now."""
        if self._reduced is None:
            return
        self._service.made_step()
        self.shared.total += self._reduced.value
        now = time.monotonic()
        if self._last_step is not None:
            self._pause = max(self._pause, now - self._last_step)
        self._last_step = now

    def _look_out(self) -> bool:
        """Return now and then whether newcomers wait at this worker."""
        if time.monotonic() < self._looked_out + _LOOK_OUT_SECONDS:
            return False
        self._looked_out = time.monotonic()
        return self._inside.newcomers()
