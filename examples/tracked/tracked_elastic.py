"""Train on MNIST in several processes: plain.py, tracked and elastic.

export SLIPWAY_ELASTIC_PEERS=localhost:29501,localhost:29502
SLIPWAY_ELASTIC_INDEX=0 python3 tracked_elastic.py
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import datasets, transforms

from slipway.events import Events
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService
from slipway_trainer.training import report
from slipway_trainer.training.goals import task1_time_to_accuracy_goal
from slipway_trainer.training.metrics import TopKAccuracy
from slipway_trainer.training.tracker import Tracker
from slipway_trainer.training.validation import validation_round


class Net(nn.Module):  # type: ignore[misc]  # torch is inside the image alone
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


def load(args: argparse.Namespace, train: bool) -> Dataset:
    """Return the pictures as tensors, with their labels."""
    steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    dataset = datasets.MNIST(args.data, train=train, transform=transforms.Compose(steps))
    return Subset(dataset, range(min(args.limit, len(dataset))))


def train_one_batch(
    model: nn.Module,
    optimizer: optim.Optimizer,
    data: torch.Tensor,
    target: torch.Tensor,
    tracker: Tracker,
) -> torch.Tensor:
    """Make one step."""
    optimizer.zero_grad()
    loss = F.nll_loss(model(data), target)
    tracker.record_batch_step("forward")
    loss.backward()
    tracker.record_batch_step("backward")
    optimizer.step()
    return loss


def run(args: argparse.Namespace, events: Events) -> dict[str, Any]:
    """Train, and report the loss and the accuracy."""
    torch.manual_seed(1234)
    train_set, val_set = load(args, train=True), load(args, train=False)
    service = RecordIndexService(args.batch_size, len(train_set), args.epochs)
    train_batches = DataLoader(train_set, batch_sampler=service)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    controller = PyTorchAllReduceController(service)
    controller.set_broadcast_model(model)
    controller.set_broadcast_optimizer(optimizer)
    train_step = controller.elastic_run(train_one_batch)
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    run_id, goal = os.environ.get("SLIPWAY_RUN_ID"), task1_time_to_accuracy_goal
    tracker = Tracker(metrics, run_id, events.rank, goal, events, total=controller.sum)

    def end_epoch() -> dict[str, Any]:
        """Evaluate with the others; again when one of them is lost meanwhile."""
        mine = range(controller.rank, len(val_set), controller.size)
        batches = DataLoader(Subset(val_set, mine), args.batch_size)
        validation_round(batches, model, F.nll_loss, metrics, run_id, events.rank, tracker=tracker)
        tracker.epoch_end()
        events.emit("ledger", **service.ledger.audit())
        return tracker.state()

    with controller.scope():
        began = controller.agree("began", lambda: controller.sum(time.time() / controller.size)[0])
        for epoch in service.epochs():
            if epoch > 1:  # a worker that was not there until now follows the others
                tracker.restore(controller.shared.agreed[f"epoch {epoch - 1}"])
            tracker.start(time.time() - began)
            tracker.train()
            for data, target in train_batches:
                tracker.batch_start()
                seen = service.seen
                loss = train_step(model, optimizer, data, target, tracker)
                samples = service.seen - seen
                tracker.batch_end(samples)
                is_told = service.ledger.step % 10 == 0
                tracker.record_loss(loss.item() * samples, samples, log_to_api=is_told)
            if controller.agree(f"epoch {epoch}", end_epoch)["goal_reached"]:
                break
        tracker.restore(list(controller.shared.agreed.values())[-1])
    if controller.rank == 0:
        torch.save(model.state_dict(), Path(os.environ["SLIPWAY_OUTPUT_DIR"], "model.pt"))
    world = {"rank": controller.rank, "world_size": controller.size}
    counted = {"samples_seen": service.seen, "total_samples_seen": service.ledger.counted}
    return {**tracker.summary(), **world, **counted, "dataset": "mnist"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/data/mnist")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--limit", type=int, default=60_000, help="use the first samples only")
    report.run(partial(run, parser.parse_args()))
