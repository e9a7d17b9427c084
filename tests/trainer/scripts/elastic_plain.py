# ruff: noqa: T201 - it prints, as scripts do
"""A script of one's own, made elastic; it fails by itself where FAIL_AT says `index:step`."""

import json
import os

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService

torch.manual_seed(1)
features = torch.randn(3000, 20)
dataset = TensorDataset(features, features[:, :4].argmax(1))
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
index = os.environ.get("SLIPWAY_ELASTIC_INDEX", "0")


def train_one_batch(data: Tensor, target: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    loss.backward()
    if os.environ.get("FAIL_AT") == f"{index}:{service.ledger.step}":
        raise ValueError("a mistake of this script")
    optimizer.step()
    return loss


service = RecordIndexService(
    batch_size=16, dataset_size=len(dataset), num_epochs=2, shuffle=True, dataset_name="made-up"
)
loader = DataLoader(dataset, batch_sampler=service)
controller = PyTorchAllReduceController(service)
controller.set_broadcast_model(model)
controller.set_broadcast_optimizer(optimizer)
elastic_train_one_batch = controller.elastic_run(train_one_batch)

with controller.scope():
    for data, target in loader:
        loss = elastic_train_one_batch(data, target)
        print(json.dumps({"event": "step", "step": service.ledger.step - 1, "loss": loss.item()}))
print(
    json.dumps(
        {
            "event": "done",
            "rank": controller.rank,
            "size": controller.size,
            "losses": controller.shared.losses,
            "audits": service.ledger.audits,
            "weights": [each.detach().double().sum().item() for each in model.parameters()],
            "optimizer": len(optimizer.state_dict()["state"]),
        }
    )
)
