"""The programs that the catalogue's jobs run; `training` is the loop that they share.

`mnist`, `cifar` and `images` train on a fixed world of ranks, `mnist_elastic` on workers that come
and go.

They import this before torch and torchvision, which then takes two thirds of the time: those make
some 100,000 objects that stay, and while they do Python's garbage collector goes over them again
and again, for nothing. With the ranks of a job on one machine that is a second of its start.
Afterwards the collector works as ever, and leaves those objects aside.
"""

import gc
from contextlib import suppress

gc.disable()
with suppress(ModuleNotFoundError):  # `options` and `sharding` do without
    import torch._dynamo  # noqa: F401 - every torch.optim imports it, then with the collector on
    import torchvision.datasets  # noqa: F401
gc.freeze()
gc.enable()
