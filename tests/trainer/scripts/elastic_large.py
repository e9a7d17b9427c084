"""A model of MIB mebibytes of float32 (1024), in STEPS steps (6) of all WORKERS (2), made elastic.

Each process begins with weights of its own, so two have the same only where one gave them to the
other. STEP_TIMEOUT is in seconds.
"""

import hashlib
import os
import resource
import time
from dataclasses import asdict
from datetime import timedelta

import torch
from torch import nn

from slipway.events import Events, own_rank
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService
from slipway_trainer.elastic.replica import Change

ROW = 2**18 // 8
"""Weights: an eighth of a mebibyte."""
mib, steps = int(os.environ.get("MIB", "1024")), int(os.environ.get("STEPS", "6"))
torch.manual_seed(os.getpid())
model = nn.Linear(ROW, 8 * mib, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
timeout = timedelta(seconds=float(os.environ.get("STEP_TIMEOUT", "8")))
events = Events(own_rank())


def changed(change: Change) -> None:
    events.emit("world", **asdict(change))


def train_one_batch(indices: list[int]) -> None:
    optimizer.zero_grad()
    # Without a second copy of the weights.
    (model.weight.sum() * 1e-6 * len(indices)).backward()
    optimizer.step()


service = RecordIndexService(
    batch_size=1, dataset_size=steps * int(os.environ.get("WORKERS", "2")), dataset_name="made-up"
)
controller = PyTorchAllReduceController(service, changed, step_timeout=timeout)
controller.set_broadcast_model(model)
controller.set_broadcast_optimizer(optimizer)
elastic_train_one_batch = controller.elastic_run(train_one_batch)

with controller.scope():
    for indices in service:
        began = time.monotonic()
        elastic_train_one_batch(indices)
        seconds = round(time.monotonic() - began, 2)
        events.emit("step", step=service.ledger.step - 1, seconds=seconds)
events.emit(
    "done",
    losses=controller.shared.losses,
    counted=service.ledger.counted,
    weights=hashlib.sha256(model.weight.detach().numpy()).hexdigest(),
    mib=model.weight.nbytes / 2**20,
    peak_gib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1),
)
