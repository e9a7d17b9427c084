"""One machine, several processes: each trains on its share, and DDP keeps them equal."""
import json
import os

import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import multiprocessing as mp
from torch import nn, optim
from torchvision import datasets, transforms

WORLD_SIZE = torch.cuda.device_count() or 2
DATA_DIR = "./data"
MODEL_FILE = "./mnist_cnn.pt"
ACCURACIES_FILE = "./mnist_cnn_accuracies.json"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, 2)
        self.fc1 = nn.Linear(8 * 6 * 6, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        x = F.relu(self.fc1(x.view(-1, 8 * 6 * 6)))
        return F.log_softmax(self.fc2(x), dim=1)


def mnist(train):
    return datasets.MNIST(
        DATA_DIR, train=train, download=False,
        transform=transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]),
    )


def dist_setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "8888"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def evaluate(model, device, loader):
    model.eval()
    correct, loss = 0, 0.
    with torch.no_grad():
        for images, targets in loader:
            outputs = model(images.to(device))
            loss += F.nll_loss(outputs, targets.to(device), reduction="sum").item()
            correct += (outputs.argmax(1) == targets.to(device)).sum().item()
    total = len(loader.dataset)
    print("\ntest_loss={:.4f}\naccuracy={:.4f}\n".format(loss / total, correct / total))
    return correct / total


def train_mnist(rank, world_size, epochs):
    torch.manual_seed(1)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    print(f"Running MNIST training on rank {rank}, world size: {world_size}")
    dist_setup(rank, world_size)
    sampler = torch.utils.data.distributed.DistributedSampler(mnist(train=True))
    train_loader = torch.utils.data.DataLoader(mnist(train=True), 64, sampler=sampler)
    test_loader = torch.utils.data.DataLoader(mnist(train=False), 1000)
    model = nn.parallel.DistributedDataParallel(Net().to(device))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    accuracies = []
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)
        model.train()
        for batch_idx, (data, target) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data.to(device)), target.to(device))
            loss.backward()
            optimizer.step()
            if rank == 0 and batch_idx % 100 == 0:
                print("Train Epoch: {} [{}/{}]\tloss={:.4f}".format(
                    epoch, batch_idx * len(data), len(train_loader.dataset), loss.item()))
        if rank == 0:
            accuracies.append(evaluate(model.module, device, test_loader))
        dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), MODEL_FILE)
        with open(ACCURACIES_FILE, "w") as fp:
            json.dump(accuracies, fp)
    dist.destroy_process_group()


if __name__ == "__main__":
    for train in [True, False]:
        datasets.MNIST(DATA_DIR, train=train, download=True)
    mp.spawn(train_mnist, args=(WORLD_SIZE, 2), nprocs=WORLD_SIZE, join=True)
    with open(ACCURACIES_FILE) as fp:
        print("Accuracies:", json.load(fp))
