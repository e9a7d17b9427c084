"""An ordinary Lightning script that knows nothing of jobs: README.md makes it one."""

import lightning  # type: ignore[import-not-found]
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):  # type: ignore[misc]
    """Tells positive sums from negative ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        return F.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        output = self.layer(batch[0])
        self.log("val_loss", F.cross_entropy(output, batch[1]), sync_dist=True)
        self.log("accuracy", (output.argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


def batches(seed: int) -> DataLoader[tuple[Tensor, ...]]:
    numbers = torch.randn(2048, 8, generator=torch.Generator().manual_seed(seed))
    return DataLoader(TensorDataset(numbers, (numbers.sum(1) > 0).long()), batch_size=32)


trainer = lightning.Trainer(max_epochs=3)
trainer.fit(Model(), batches(1), batches(2))
