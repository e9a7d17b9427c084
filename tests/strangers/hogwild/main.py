import argparse

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torchvision import datasets, transforms

from train import test, train

parser = argparse.ArgumentParser(description='Asynchronous SGD on shared parameters')
parser.add_argument('--batch-size', type=int, default=64)
parser.add_argument('--epochs', type=int, default=5)
parser.add_argument('--lr', type=float, default=0.02)
parser.add_argument('--num-processes', type=int, default=2)
parser.add_argument('--log-interval', type=int, default=100)
parser.add_argument('--save-model', action='store_true')


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


if __name__ == '__main__':
    args = parser.parse_args()
    transform = transforms.Compose([
        transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    dataset1 = datasets.MNIST('../data', train=True, download=True, transform=transform)
    dataset2 = datasets.MNIST('../data', train=False, transform=transform)

    torch.manual_seed(1)
    mp.set_start_method('spawn')
    model = Net()
    model.share_memory()  # all processes update the same parameters, without a lock

    processes = []
    for rank in range(args.num_processes):
        p = mp.Process(target=train, args=(rank, args, model, dataset1))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()

    if args.save_model:
        torch.save(model.state_dict(), 'mnist_hogwild.pt')
    test(model, dataset2)
