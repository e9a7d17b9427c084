"""The demos as they are usually written, to measure against: everything in its usual place.

Samples one by one through ToTensor and Normalize, a DataLoader that stacks them, pictures color
by color in memory, 32-bit numbers, ReLU before pooling.
"""

from collections.abc import Callable

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


def epochs(net: str, samples: int) -> Callable[[], int]:
    """Return what trains for an epoch of so many samples and tells how many it has seen."""
    torch.manual_seed(1)
    model: nn.Module = MnistNet() if net == "mnist" else CifarNet()
    loader = DataLoader(
        Subset(_dataset(net), range(samples)), batch_size=BATCH_SIZE[net], shuffle=True
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def epoch() -> int:
        seen, running_loss = 0, 0.0
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
            seen += len(labels)
        return seen

    return epoch


def _dataset(net: str) -> MNIST | CIFAR10:
    if net == "mnist":
        transform = Compose([ToTensor(), Normalize((0.1307,), (0.3081,))])
        return MNIST("/data/mnist", transform=transform)
    transform = Compose([ToTensor(), Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])
    return CIFAR10("/data/cifar10", transform=transform)
