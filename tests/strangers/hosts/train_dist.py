"""Data parallel training with nothing but all_reduce; each process is told who it is."""
import argparse
import os
from random import Random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(784, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.view(-1, 784)))), dim=1)


def partition_dataset():
    dataset = datasets.MNIST(
        './data', train=True, download=True,
        transform=transforms.Compose([
            transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]))
    size = dist.get_world_size()
    indexes = list(range(len(dataset)))
    Random(1234).shuffle(indexes)
    partition = torch.utils.data.Subset(dataset, indexes[dist.get_rank()::size])
    return torch.utils.data.DataLoader(partition, batch_size=128 // size, shuffle=True)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, size, run_id, epochs=1):
    torch.manual_seed(1234)
    train_set = partition_dataset()
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for epoch in range(epochs):
        epoch_loss = 0.0
        for data, target in train_set:
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            epoch_loss += loss.item()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        print('Run', run_id, 'Rank', dist.get_rank(), 'of', size, ', epoch', epoch, ': loss',
              epoch_loss / len(train_set))
    if rank == 0:
        torch.save(model.state_dict(), run_id + '.pt')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Process run parameters')
    parser.add_argument('--run_id', type=str, help='The id of the run')
    parser.add_argument('--rank', type=int, help='The rank of this worker')
    parser.add_argument('--hosts', type=str, help='The list of hosts')
    args = parser.parse_args()
    hosts = args.hosts.split(',')
    os.environ['MASTER_ADDR'] = hosts[0]  # the first one is the master
    os.environ['MASTER_PORT'] = '29500'
    dist.init_process_group('gloo', rank=args.rank, world_size=len(hosts))
    run(args.rank, len(hosts), args.run_id)
