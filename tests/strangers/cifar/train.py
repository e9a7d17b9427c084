import argparse
import datetime
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torchvision
import torchvision.transforms as transforms


# define network architecture
class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, 2)
        self.conv2 = nn.Conv2d(12, 24, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.dropout = nn.Dropout(p=0.1)
        self.fc1 = nn.Linear(24 * 6 * 6, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 24 * 6 * 6)
        return self.fc2(self.dropout(F.relu(self.fc1(x))))


def train(train_loader, model, criterion, optimizer, epoch, device, print_freq, rank):
    running_loss = 0.0
    for i, data in enumerate(train_loader, 0):
        inputs, labels = data[0].to(device), data[1].to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if (i + 1) % print_freq == 0:  # every print_freq mini-batches
            print("Rank %d: [%d, %5d] loss: %.3f" % (rank, epoch + 1, i + 1, running_loss / print_freq))
            running_loss = 0.0


def evaluate(test_loader, model, device):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for data in test_loader:
            images, labels = data[0].to(device), data[1].to(device)
            _, predicted = torch.max(model(images).data, 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    print("Accuracy of the network on the %d test images: %d %%" % (total, 100 * correct / total))


def main(args):
    # what every launcher sets
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.distributed.init_process_group(
        backend=args.backend, timeout=datetime.timedelta(minutes=args.timeout))

    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])
    train_set = torchvision.datasets.CIFAR10(
        root=args.data_dir, train=True, download=True, transform=transform)
    sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    train_loader = torch.utils.data.DataLoader(
        train_set, batch_size=args.batch_size, num_workers=2, sampler=sampler)
    test_set = torchvision.datasets.CIFAR10(
        root=args.data_dir, train=False, download=True, transform=transform)
    test_loader = torch.utils.data.DataLoader(
        test_set, batch_size=args.batch_size, shuffle=False, num_workers=2)

    ids = [local_rank] if torch.cuda.is_available() else None
    model = nn.parallel.DistributedDataParallel(Net().to(device), device_ids=ids)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    for epoch in range(args.epochs):
        print("Rank %d: Starting epoch %d" % (rank, epoch))
        sampler.set_epoch(epoch)
        model.train()
        train(train_loader, model, criterion, optimizer, epoch, device, 200, rank)
    print("Rank %d: Finished Training" % (rank))

    if rank == 0:
        os.makedirs(args.output_dir, exist_ok=True)
        torch.save(model.state_dict(), os.path.join(args.output_dir, "cifar_net.pt"))
        evaluate(test_loader, model, device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=str, help="directory containing CIFAR-10 dataset")
    parser.add_argument("--epochs", default=10, type=int, help="number of epochs")
    parser.add_argument("--batch-size", default=16, type=int, help="mini batch size per process")
    parser.add_argument("--output-dir", default="outputs", type=str, help="where the model goes")
    parser.add_argument("--backend", default="gloo", type=str, help="gloo, nccl or mpi")
    parser.add_argument("--timeout", default=30, type=int, help="minutes to wait for the others")
    main(parser.parse_args())
