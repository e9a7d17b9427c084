"""The programs that the catalogue's jobs run; `training` is the loop that they share.

`mnist` and `cifar` train on a fixed world of ranks, `mnist_elastic` on workers that come and go.
"""
