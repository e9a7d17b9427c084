"""The demos as they are usually written, to measure against: everything in its usual place.

Samples one by one through ToTensor and Normalize, a DataLoader that stacks them, pictures color
by color in memory, 32-bit numbers, ReLU before pooling.

    python3 -m tests.trainer.bench.plain NET SAMPLES
"""

import json
import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import MNIST
from torchvision.transforms import Compose, Normalize, ToTensor

from slipway_trainer.data.datasets import CIFAR10
from slipway_trainer.demos import cifar, mnist

BATCH_SIZE = {"mnist": 64, "cifar": 16}


class MnistNet(mnist.Net):
    """The same layers, in the usual order."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.view(-1, 50 * 4 * 4)))
        return self.fc2(x)


class CifarNet(cifar.Net):
    """The same layers, in the usual order."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.max_pool2d(F.relu(self.conv3(x)), 2)
        x = self.dropout(F.relu(self.fc1(x.view(-1, 128 * 6 * 6))))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def _dataset(net: str) -> MNIST | CIFAR10:
    if net == "mnist":
        transform = Compose([ToTensor(), Normalize((0.1307,), (0.3081,))])
        return MNIST("/data/mnist", transform=transform)
    transform = Compose([ToTensor(), Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])
    return CIFAR10("/data/cifar10", transform=transform)


def main(net: str, samples: int) -> None:
    """Train for two epochs of so many samples, and tell of them as the demos do."""
    torch.manual_seed(1)
    model: nn.Module = MnistNet() if net == "mnist" else CifarNet()
    loader = DataLoader(
        Subset(_dataset(net), range(samples)), batch_size=BATCH_SIZE[net], shuffle=True
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in (1, 2):
        began, running_loss = time.perf_counter(), 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        told = {"epoch": epoch, "samples": samples, "seconds": time.perf_counter() - began}
        print(json.dumps({"event": "epoch", "precision": "fp32", **told}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
