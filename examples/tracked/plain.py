"""Train on MNIST in several processes that average their gradients, with plain torch.

RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 python3 plain.py
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import datasets, transforms

import slipway


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


def partition(dataset: Dataset, rank: int, size: int) -> Dataset:
    """Return this rank's share of the samples, as large as every other's."""
    share = len(dataset) // size
    return Subset(dataset, range(rank * share, (rank + 1) * share))


def average_gradients(model: nn.Module) -> None:
    """Give all ranks the mean of their gradients."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train_one_batch(
    model: nn.Module, optimizer: optim.Optimizer, data: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Make one step."""
    optimizer.zero_grad()
    loss = F.nll_loss(model(data), target)
    loss.backward()
    average_gradients(model)
    optimizer.step()
    return loss


def run(args: argparse.Namespace, rank: int, size: int) -> None:
    """Train, and report the loss."""
    torch.manual_seed(1234)
    train_set = partition(load(args, train=True), rank, size)
    train_batches = DataLoader(train_set, args.batch_size, shuffle=True)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(1, args.epochs + 1):
        epoch_loss = 0.0
        for data, target in train_batches:
            loss = train_one_batch(model, optimizer, data, target)
            epoch_loss += loss.item()
        slipway.log(epoch=epoch, loss=epoch_loss / len(train_batches))
    slipway.finish(dataset="mnist")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/data/mnist")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--limit", type=int, default=60_000, help="use the first samples only")
    dist.init_process_group("gloo")
    run(parser.parse_args(), dist.get_rank(), dist.get_world_size())
