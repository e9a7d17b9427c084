"""Data parallel training with nothing but all_reduce; each process is told who it is."""
import argparse
import os
from math import ceil
from random import Random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torchvision import datasets, transforms


class Partition(object):
    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        return self.data[self.index[index]]


class DataPartitioner(object):
    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, []
        indexes = list(range(len(data)))
        Random(seed).shuffle(indexes)
        for share in sizes:
            length = int(share * len(data))
            self.partitions.append(indexes[:length])
            indexes = indexes[length:]

    def use(self, partition):
        return Partition(self.data, self.partitions[partition])


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
    bsz = int(128 / float(size))
    partition = DataPartitioner(dataset, [1.0 / size for _ in range(size)]).use(dist.get_rank())
    return torch.utils.data.DataLoader(partition, batch_size=bsz, shuffle=True), bsz


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, size, run_id, epochs):
    torch.manual_seed(1234)
    train_set, bsz = partition_dataset()
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    num_batches = ceil(len(train_set.dataset) / float(bsz))
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
              epoch_loss / num_batches)
    if rank == 0:
        torch.save(model.state_dict(), run_id + '.pt')


def init_processes(rank, run_id, hosts, epochs, backend='gloo'):
    hosts = hosts.split(',')
    os.environ['MASTER_ADDR'] = hosts[0]  # the first one is the master
    os.environ['MASTER_PORT'] = '29500'
    os.environ['WORLD_SIZE'] = str(len(hosts))
    os.environ['RANK'] = str(rank)
    dist.init_process_group(backend, rank=rank, world_size=len(hosts))
    run(rank, len(hosts), run_id, epochs)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Process run parameters')
    parser.add_argument('--run_id', type=str, help='The id of the run')
    parser.add_argument('--rank', type=int, help='The rank of this worker')
    parser.add_argument('--hosts', type=str, help='The list of hosts')
    parser.add_argument('--epochs', type=int, default=1)
    args = parser.parse_args()
    init_processes(args.rank, args.run_id, args.hosts, args.epochs)
