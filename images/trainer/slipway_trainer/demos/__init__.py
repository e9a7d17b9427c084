"""The programs that the catalogue's jobs run; `loop` is the training loop that they share.

`mnist`, `cifar` and `images` train on a fixed world of ranks, `mnist_elastic` on workers that come
and go. They import `options` before torch and torchvision, which are then imported faster.
"""
