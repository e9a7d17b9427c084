"""Train on MNIST with PyTorch Lightning, in one process for each pod.

Two lines are Slipway's: the import, and the Trainer's logger.
"""

import argparse
import os

import lightning  # type: ignore[import-not-found]  # see requirements.txt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import datasets, transforms

from slipway.lightning import SlipwayLogger


class Model(lightning.LightningModule):  # type: ignore[misc]
    """A network of two layers for pictures of 28 by 28."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        """Return the loss of a batch."""
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        """Log what the test set says."""
        images, labels = batch
        output = self.net(images)
        self.log("val_loss", F.cross_entropy(output, labels), sync_dist=True)
        self.log("accuracy", (output.argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def load(args: argparse.Namespace, train: bool) -> Dataset:
    """Return the pictures as tensors, with their labels."""
    dataset = datasets.MNIST(args.data, train=train, transform=transforms.ToTensor())
    return Subset(dataset, range(min(args.limit, len(dataset))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/data/mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=60_000, help="use the first samples only")
    args = parser.parse_args()
    lightning.seed_everything(1)
    trainer = lightning.Trainer(
        strategy="ddp", num_nodes=int(os.environ.get("WORLD_SIZE", "1")), devices=1,
        max_epochs=args.epochs, enable_progress_bar=False,
        logger=SlipwayLogger(),
    )  # fmt: skip
    test_batches = DataLoader(load(args, train=False), batch_size=250)
    trainer.fit(Model(), DataLoader(load(args, train=True), 64, shuffle=True), test_batches)
