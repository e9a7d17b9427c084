"""Learn which points lie in a circle, in several processes. Put your own model and data here."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import slipway


def main() -> None:
    """Train, and report each epoch's loss and accuracy."""
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())  # each rank has points of its own
    points = torch.rand(4096, 2) * 2 - 1
    labels = (points.norm(dim=1) < 0.8).long()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, 11):
        for inputs, targets in zip(points.split(64), labels.split(64), strict=True):
            loss = F.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = (model(points).argmax(1) == labels).float().mean()
        dist.all_reduce(accuracy)
        slipway.log(epoch=epoch, loss=loss.item(), accuracy=accuracy.item() / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
