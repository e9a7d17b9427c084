"""Imports torch and torchvision in two thirds of the time: import this before them.

They make some 100,000 objects that stay, and while they do Python's garbage collector goes over
them again and again, for nothing. With the ranks of a job on one machine that is a second of its
start. Afterwards the collector works as ever, and leaves those objects aside.
"""

import gc

gc.disable()

import torch._dynamo  # noqa: E402, F401 - every torch.optim imports it, then with the collector on
import torchvision.datasets  # noqa: E402, F401

gc.freeze()
gc.enable()
