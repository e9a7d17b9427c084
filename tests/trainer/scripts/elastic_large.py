"""A model of 1 GiB of float32, in 6 steps of both workers, made elastic.

Each process begins with weights of its own, so two have the same only where one gave them to the
other.
"""

import hashlib
import os
import resource
from dataclasses import asdict

import torch
from torch import nn

from slipway.events import Events, own_rank
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService
from slipway_trainer.elastic.replica import Change

torch.manual_seed(os.getpid())
model = nn.Linear(2**15, 2**13, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
events = Events(own_rank())


def changed(change: Change) -> None:
    events.emit("world", **asdict(change))


def train_one_batch(indices: list[int]) -> None:
    optimizer.zero_grad()
    # Without a second copy of the weights.
    (model.weight.sum() * 1e-6 * len(indices)).backward()
    optimizer.step()


service = RecordIndexService(batch_size=1, dataset_size=2 * 6, dataset_name="made-up")
controller = PyTorchAllReduceController(service, changed)
controller.set_broadcast_model(model)
controller.set_broadcast_optimizer(optimizer)
elastic_train_one_batch = controller.elastic_run(train_one_batch)

with controller.scope():
    for indices in service:
        elastic_train_one_batch(indices)
        events.emit("step", step=service.ledger.step - 1)
events.emit(
    "done",
    losses=controller.shared.losses,
    counted=service.ledger.counted,
    weights=hashlib.sha256(model.weight.detach().numpy()).hexdigest(),
    mib=model.weight.nbytes / 2**20,
    peak_gib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1),
)
