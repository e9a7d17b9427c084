"""Distributed training as it runs inside a job's containers.

Three packages, each of which can be read alone:

    demos     programs (mnist, cifar, images, mnist_elastic), and the training loop that they share
    elastic   training that goes on when workers are lost; for programs of one's own as well
    agent     runs beside a job's program: starts it, fetches its inputs, copies its files out

Beside them lies what your own program imports: report, tracker with its metrics, goals and
validation, and data sets.
"""

# By their short names, too: python3 -m slipway_trainer.launch, python3 -m slipway_trainer.mnist.
__path__ += [f"{__path__[0]}/{package}" for package in ("agent", "demos")]
