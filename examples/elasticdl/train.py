"""Train on MNIST on workers that come and go: a loop written for ElasticDL, on slipway_trainer.

export SLIPWAY_ELASTIC_PEERS=localhost:29501,localhost:29502
SLIPWAY_ELASTIC_INDEX=0 python3 train.py --training_data data
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets
from torchvision.transforms.functional import to_tensor

import slipway
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService


class ElasticDataset(Dataset):  # type: ignore[misc]  # torch is inside the image alone
    """Reads a picture by its index, whoever hands the indices out."""

    def __init__(self, images: Sequence[Any]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = self._images[index]
        return to_tensor(image), label


def train_one_batch(
    model: nn.Module, optimizer: optim.Optimizer, data: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Make one step."""
    optimizer.zero_grad()
    output = model(data)
    loss = F.nll_loss(output, target)
    loss.backward()
    optimizer.step()
    return loss


def correct(model: nn.Module, images: Dataset, share: range) -> float:
    """Return how many of a share of pictures the model gets right."""
    with torch.no_grad():
        data = torch.stack([images[index][0] for index in share])
        target = torch.tensor([images[index][1] for index in share])
        return float((model(data).argmax(1) == target).sum())


def train(args: argparse.Namespace) -> None:
    """Train for some epochs, and report the accuracy."""
    torch.manual_seed(1)
    train_data = datasets.MNIST(args.training_data, train=True, download=True)
    test_data = ElasticDataset(datasets.MNIST(args.training_data, train=False, download=True))
    data_shard_service = RecordIndexService(
        batch_size=args.batch_size,
        dataset_size=len(train_data),
        num_epochs=args.num_epochs,
        shuffle=True,
        dataset_name="mnist_training_data",
    )
    train_loader = DataLoader(ElasticDataset(train_data), batch_sampler=data_shard_service)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 10), nn.LogSoftmax(1)
    )
    optimizer = optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.5)
    allreduce_controller = PyTorchAllReduceController(data_shard_service)
    allreduce_controller.set_broadcast_model(model)
    allreduce_controller.set_broadcast_optimizer(optimizer)
    elastic_train_one_batch = allreduce_controller.elastic_run(train_one_batch)

    def evaluate() -> float:
        """Return the share that is right, to which each worker adds its own part."""
        share = range(allreduce_controller.rank, len(test_data), allreduce_controller.size)
        (total,) = allreduce_controller.sum(correct(model, test_data, share))
        return float(total) / len(test_data)

    with allreduce_controller.scope():
        for epoch in data_shard_service.epochs():
            for data, target in train_loader:
                loss = elastic_train_one_batch(model, optimizer, data, target)
            accuracy = allreduce_controller.agree(f"accuracy {epoch}", evaluate)
            slipway.log(epoch=epoch, loss=loss.item(), accuracy=accuracy)
    slipway.finish(dataset="mnist")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--training_data", default="/data/mnist")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--num_epochs", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=0.05)
    train(parser.parse_args())
