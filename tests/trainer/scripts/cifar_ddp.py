# ruff: noqa: T201 - it prints, as scripts do
"""A script as people have them: it knows of no launcher but by the usual variables.

It takes CIFAR-10 or what stands in for it, reads it with DataLoader processes, writes into a
directory beside it, and says nothing but what it prints.
"""

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import transforms

from slipway_trainer.data.datasets import CIFAR10


def main(args: argparse.Namespace) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    print(f"rank {rank} of {world_size}, here {os.environ['LOCAL_RANK']}")
    torch.distributed.init_process_group("gloo", timeout=timedelta(minutes=args.timeout))
    to_tensor = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    )

    def load(train: bool) -> CIFAR10:
        return CIFAR10(root=args.data_dir, train=train, transform=to_tensor)

    train_set, test_set = load(True), load(False)
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, num_workers=args.workers)
    test_loader = DataLoader(test_set, args.batch_size, num_workers=args.workers)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(1800, 10)
    )
    parallel = DistributedDataParallel(model)
    optimizer = optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9)
    for step, (images, labels) in enumerate(train_loader):
        if step == args.steps:
            break
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(images), labels)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: finished training")

    if rank == 0:
        Path(args.output_dir).mkdir(exist_ok=True)
        torch.save(model.state_dict(), Path(args.output_dir, "cifar_net.pt"))
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in test_loader)
        print(f"accuracy on {len(test_set)} pictures: {right / len(test_set)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output-dir", default="outputs")
    parser.add_argument("--timeout", type=int, default=30)
    parser.add_argument("--steps", type=int, default=100)
    main(parser.parse_args())
