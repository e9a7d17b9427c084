"""Trains with two other ranks for some seconds; the rank SLOW takes longer, in what IN names."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SLOW, IN = int(os.environ["SLOW"]), os.environ["IN"]
dist.init_process_group("gloo")
is_slow = dist.get_rank() == SLOW


class Noise(Dataset[tuple[torch.Tensor, torch.Tensor]]):  # type: ignore[misc]
    """Samples without end, which take a rank longer that is slow in that."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if is_slow and IN == "data":
            time.sleep(0.004)
        return torch.randn(64), torch.tensor(index % 10)


net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ends = time.monotonic() + float(os.environ["SECONDS"])
for data, target in DataLoader(Noise(), batch_size=16):
    output = model(data)
    if is_slow and IN == "compute":
        time.sleep(0.06)
    optimizer.zero_grad()
    cross_entropy(output, target).backward()
    optimizer.step()
    goes_on = torch.tensor(float(time.monotonic() < ends))
    dist.all_reduce(goes_on, op=dist.ReduceOp.MIN)
    if not goes_on.item():
        break
