import os

import torch
import torch.nn.functional as F
import torch.optim as optim


def train(rank, args, model, dataset):
    torch.manual_seed(1 + rank)
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.5)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch_idx, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if batch_idx % args.log_interval == 0:
                print('{}\tTrain Epoch: {} [{}/{}]\tLoss: {:.6f}'.format(
                    os.getpid(), epoch, batch_idx * len(data), len(loader.dataset), loss.item()))


def test(model, dataset):
    model.eval()
    loss, correct = 0, 0
    with torch.no_grad():
        for data, target in torch.utils.data.DataLoader(dataset, batch_size=1000):
            output = model(data)
            loss += F.nll_loss(output, target, reduction='sum').item()
            correct += (output.argmax(dim=1) == target).sum().item()
    print('\nTest set: Global loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n'.format(
        loss / len(dataset), correct, len(dataset), 100. * correct / len(dataset)))
