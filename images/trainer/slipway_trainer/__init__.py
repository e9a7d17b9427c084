"""Distributed training as it runs inside a job's containers.

demos       programs (mnist, cifar, images, mnist_elastic), and the training loop they share
training    what a training loop uses, yours too: report, tracker, metrics, goals, validation
data        data sets, and how they are read and split
elastic     training that goes on when workers are lost; for programs of one's own as well
membership  how elastic workers find each other, without torch
agent       runs beside a job's program: starts it, fetches its inputs, copies its files out
"""

# By their short names, too: python3 -m slipway_trainer.launch, python3 -m slipway_trainer.mnist,
# from slipway_trainer.datasets import CIFAR10.
__path__ += [f"{__path__[0]}/{package}" for package in ("agent", "demos", "training", "data")]
