"""Train a convolutional network on CIFAR-10, on any number of ranks.

A single process:
    python3 -m slipway_trainer.cifar --data-dir /data/cifar10 --output-dir outputs
Two processes on one machine:
    torchrun --nproc-per-node 2 -m slipway_trainer.cifar --data-dir /data/cifar10 --timeout 5
The containers in a PyTorchJob run the single-process command.
"""

import slipway_trainer.demos.options  # noqa: F401, I001 - before torch

import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from slipway_trainer.data import datasets
from slipway_trainer.demos import loop, options, outputs


class Net(nn.Module):  # type: ignore[misc]  # only the image has torch
    """Three convolutions (32, 64, 128 maps, 3 x 3), three linear layers: 657,342 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 128, 3)
        self.fc1 = nn.Linear(128 * 6 * 6, 120)
        self.dropout = nn.Dropout(p=0.2)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:  # (n, 3, 32, 32)
        x = F.relu(self.conv1(x))  # (n, 32, 30, 30)
        # Pooling before ReLU gives the same result, with a quarter of the work for ReLU.
        x = F.relu(F.max_pool2d(self.conv2(x), 2))  # (n, 64, 14, 14)
        x = F.relu(F.max_pool2d(self.conv3(x), 2))  # (n, 128, 6, 6)
        x = self.dropout(F.relu(self.fc1(x.flatten(1))))  # (n, 120)
        x = F.relu(self.fc2(x))  # (n, 84)
        return self.fc3(x)  # (n, 10), unnormalized log-probabilities


PARSER = options.parser(
    "slipway_trainer.cifar", __doc__, data="/data/cifar10", lr=0.001, log_interval=200,
    epochs=10, batch_size=16,
)  # fmt: skip
TASK = outputs.Task(net=Net, load=datasets.cifar10, model_file="cifar_net.pt", by_class=True)

if __name__ == "__main__":
    loop.main(PARSER, lambda _: TASK)
