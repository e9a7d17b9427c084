# ruff: noqa: T201 - it prints, as scripts do
"""Counts its samples in the model itself: each step adds 1 to the weight of each of its samples.

With it travel a scheduler, an average of the weights and a scaler that leaves out one step.
Gradients are clipped. Where SPLIT says `index:first:last`, that worker neither sees the others nor
is seen by them from the step `first` on, until it has made the step `last` by itself. Where FAIL_AT
says `index:step`, that worker fails by itself.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService, world
from slipway_trainer.elastic.replica import Change
from slipway_trainer.membership.board import index_of
from slipway_trainer.membership.rendezvous import Rendezvous

SAMPLES = 3000
LEFT_OUT = 7  # the step that the scaler leaves out
index = int(os.environ.get("SLIPWAY_ELASTIC_INDEX", "0"))
apart, first, last = map(int, os.environ.get("SPLIT", "-1:0:0").split(":"))
split = Path(os.environ["SLIPWAY_OUTPUT_DIR"]).parent / "split"


class Sign(torch.optim.Optimizer):  # type: ignore[misc]
    """Adds 1 to each weight with a negative gradient."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1.0})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad.sign())


class Scaler:
    """Leaves out a step, as a GradScaler does for gradients that are not finite."""

    def __init__(self) -> None:
        self.skipped = 0

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if service.ledger.step == LEFT_OUT:
            self.skipped += 1
        else:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return vars(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped = state["skipped"]


def look(self: Rendezvous) -> Any:
    """Return whom this worker sees: none on the other side of a split."""
    seen = look_at_all(self)
    if not split.exists():
        return seen
    is_here = {who: (index_of(who) == apart) == (index == apart) for who in seen}
    return {who: sight for who, sight in seen.items() if is_here[who]}


def changed(change: Change) -> None:
    step = service.ledger.step
    facts = {"size": change.size, "world_step": step, "lost": change.lost, "joined": change.joined}
    print(json.dumps({"event": "world", **facts}), flush=True)


look_at_all = Rendezvous.look
Rendezvous.look = look  # type: ignore[method-assign]

model = nn.Embedding(SAMPLES, 1)
nn.init.zeros_(model.weight)
optimizer, scaler = Sign(model.parameters()), Scaler()
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
average = torch.optim.swa_utils.AveragedModel(model)


def train_one_batch(samples: Tensor) -> float:
    if apart == index and service.ledger.step == first and not split.exists() and not rejoined:
        split.touch()
        raise world.WorldChanged("this worker's network is gone")
    (-model(samples).mean()).backward()
    if os.environ.get("FAIL_AT") == f"{index}:{service.ledger.step}":
        raise ValueError("a mistake of this script")
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), 0.01))
    if service.in_hand:  # not where the others have made this step already
        print(json.dumps({"event": "step", "step": service.ledger.step, "norm": norm}), flush=True)
    scaler.step(optimizer)
    scheduler.step()
    average.update_parameters(model)
    optimizer.zero_grad()
    return norm


service = RecordIndexService(8, SAMPLES, num_epochs=1, dataset_name="witness")
loader = DataLoader(TensorDataset(torch.arange(SAMPLES)), batch_sampler=service)
controller = PyTorchAllReduceController(service, changed)
controller.set_broadcast_model(model)
controller.set_broadcast_optimizer(optimizer)
controller.set_broadcast_state(scheduler=scheduler, scaler=scaler, average=average)
elastic_train_one_batch = controller.elastic_run(train_one_batch)
rejoined = False

with controller.scope():
    for (samples,) in loader:
        elastic_train_one_batch(samples)
        step = service.ledger.step - 1
        if apart >= 0 and controller.size < 3 and not (split.exists() and index == apart):
            time.sleep(0.2)  # so that the one that is alone gets further, and none ends before
        if split.exists() and index == apart and step >= last:
            rejoined = True
            split.unlink()
            print(json.dumps({"event": "alone", "steps": step}), flush=True)
counts = model.weight.detach().flatten()
print(
    json.dumps(
        {
            "event": "done",
            "size": controller.size,
            "losses": controller.shared.losses,
            "counts": {int(n): int((counts == n).sum()) for n in counts.unique()},
            "scheduled": scheduler.last_epoch,
            "averaged": int(average.n_averaged),
            "mean": round(float(average.module.weight.mean()), 6),
            "skipped": scaler.skipped,
            "steps": service.ledger.step,
            "audits": service.ledger.audits,
        }
    )
)
