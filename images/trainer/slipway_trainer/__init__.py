"""Distributed training inside a job's containers.

demos       programs (mnist, cifar, images, mnist_elastic), and their training loop
training    parts of a training loop, also for your own: report, tracker, metrics, goals, validation
data        data sets: reading and sharding
elastic     training that continues after losing workers, also for your own programs
membership  discovery of elastic workers, without torch
agent       runs beside a job's program: starts it, fetches its inputs, copies its files out
"""

# Allows short names: python3 -m slipway_trainer.launch, python3 -m slipway_trainer.mnist,
# from slipway_trainer.datasets import CIFAR10.
__path__ += [f"{__path__[0]}/{package}" for package in ("agent", "demos", "training", "data")]
