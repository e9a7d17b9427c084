"""Train a small convolutional network on MNIST, on any number of ranks.

A single process:
    python3 -m slipway_trainer.mnist --no-cuda
Four ranks on one machine:
    torchrun --nproc-per-node 4 -m slipway_trainer.mnist --backend gloo --no-cuda
The containers in a PyTorchJob run the single-process command.
"""

import slipway_trainer.demos.options  # noqa: F401, I001 - before torch

import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from slipway_trainer.data import datasets
from slipway_trainer.demos import loop, options, outputs


class Net(nn.Module):  # type: ignore[misc]  # only the image has torch
    """Two convolutions (20 and 50 maps, 5 x 5) and two linear layers: 431,080 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.fc2 = nn.Linear(500, classes)

    def forward(self, x: Tensor) -> Tensor:  # (n, 1, 28, 28)
        # Pooling before ReLU gives the same result, with a quarter of the work for ReLU.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))  # (n, 20, 12, 12)
        x = F.relu(F.max_pool2d(self.conv2(x), 2))  # (n, 50, 4, 4)
        x = F.relu(self.fc1(x.flatten(1)))  # (n, 500)
        return self.fc2(x)  # (n, 10), unnormalized log-probabilities


PARSER = options.parser(
    "slipway_trainer.mnist", __doc__, data="/data/mnist", lr=0.01, log_interval=50, epochs=1,
    batch_size=64,
)  # fmt: skip
TASK = outputs.Task(net=Net, load=datasets.mnist, model_file="mnist_cnn.pt")

if __name__ == "__main__":
    loop.main(PARSER, lambda _: TASK)
