import argparse
import os
import shutil
import time
from enum import Enum

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim
import torch.utils.data
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms

parser = argparse.ArgumentParser(description='Training of an image classifier')
parser.add_argument('data', metavar='DIR', nargs='?', default='pictures')
parser.add_argument('-a', '--arch', default='resnet18')
parser.add_argument('-j', '--workers', default=2, type=int)
parser.add_argument('--epochs', default=90, type=int)
parser.add_argument('-b', '--batch-size', default=256, type=int)
parser.add_argument('--lr', default=0.1, type=float)
parser.add_argument('-p', '--print-freq', default=2, type=int)
parser.add_argument('--world-size', default=-1, type=int)
parser.add_argument('--rank', default=-1, type=int)
parser.add_argument('--dist-url', default='tcp://127.0.0.1:23456')
parser.add_argument('--dist-backend', default='nccl')
parser.add_argument('--dummy', action='store_true', help='use fake data to benchmark')

best_acc1 = 0


class Summary(Enum):
    NONE = 0
    AVERAGE = 1


class AverageMeter:
    def __init__(self, name, fmt=':f', summary=Summary.AVERAGE):
        self.name, self.fmt, self.summary = name, fmt, summary
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ('{name} {val' + self.fmt + '} ({avg' + self.fmt + '})').format(**self.__dict__)


def accuracy(output, target, topk=(1, 5)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
    return [correct[:k].reshape(-1).float().sum() * 100. / target.size(0) for k in topk]


def run(loader, model, criterion, optimizer, prefix, args):
    meters = [AverageMeter('Time', ':6.3f', Summary.NONE), AverageMeter('Loss', ':.4e'),
              AverageMeter('Acc@1', ':6.2f'), AverageMeter('Acc@5', ':6.2f')]
    model.train(optimizer is not None)
    end = time.time()
    for i, (images, target) in enumerate(loader):
        with torch.set_grad_enabled(optimizer is not None):
            output = model(images)
            loss = criterion(output, target)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc1, acc5 = accuracy(output, target)
        for meter, value in zip(meters[1:], (loss.item(), acc1.item(), acc5.item())):
            meter.update(value, images.size(0))
        meters[0].update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            print('\t'.join([prefix + '[{}/{}]'.format(i + 1, len(loader)), *map(str, meters)]))
    return meters[2].avg, meters[3].avg


def main():
    global best_acc1
    args = parser.parse_args()
    if args.dist_url == 'env://' and args.world_size == -1:
        args.world_size = int(os.environ['WORLD_SIZE'])
    args.distributed = args.world_size > 1
    if args.distributed:
        if args.dist_url == 'env://' and args.rank == -1:
            args.rank = int(os.environ['RANK'])
        dist.init_process_group(args.dist_backend, args.dist_url,
                                world_size=args.world_size, rank=args.rank)
    print("=> creating model '{}'".format(args.arch))
    model = models.__dict__[args.arch]()
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    if args.dummy:
        print('=> Dummy data is used!')
        train = datasets.FakeData(96, (3, 64, 64), 1000, transforms.ToTensor())
        val = datasets.FakeData(32, (3, 64, 64), 1000, transforms.ToTensor())
    else:
        train = datasets.ImageFolder(os.path.join(args.data, 'train'), transforms.ToTensor())
        val = datasets.ImageFolder(os.path.join(args.data, 'val'), transforms.ToTensor())
    sampler = torch.utils.data.distributed.DistributedSampler(train) if args.distributed else None
    loader = torch.utils.data.DataLoader(train, args.batch_size, shuffle=sampler is None,
                                         num_workers=args.workers, sampler=sampler)
    val_loader = torch.utils.data.DataLoader(val, args.batch_size, num_workers=args.workers)
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        run(loader, model, criterion, optimizer, 'Epoch: [{}]'.format(epoch), args)
        acc1, acc5 = run(val_loader, model, criterion, None, 'Test: ', args)
        print(' * Acc@1 {:.3f} Acc@5 {:.3f}'.format(acc1, acc5))
        if args.rank <= 0:
            torch.save({'epoch': epoch + 1, 'arch': args.arch, 'best_acc1': best_acc1,
                        'state_dict': model.state_dict()}, 'checkpoint.pth.tar')
            if acc1 >= best_acc1:
                best_acc1 = acc1
                shutil.copyfile('checkpoint.pth.tar', 'model_best.pth.tar')


if __name__ == '__main__':
    main()
