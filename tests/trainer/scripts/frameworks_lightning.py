# ruff: noqa: T201 - it prints, as scripts do
"""A few steps of PyTorch Lightning on two nodes, as its documentation has it."""

import json

import lightning  # type: ignore[import-not-found]
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):  # type: ignore[misc]
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        """Return the loss."""
        loss: Tensor = self.layer(batch[0]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = lightning.Trainer(
    accelerator="cpu", strategy="ddp", num_nodes=2, devices=1, max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4))
found = {"rank": trainer.global_rank, "world": trainer.world_size, "node": trainer.node_rank}
print(json.dumps({**found, "steps": trainer.global_step}))
