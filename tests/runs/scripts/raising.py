# ruff: noqa: T201 - it prints, as scripts do
"""A program of which one rank fails by an error of its own, which torch or a framework wraps.

    raising.py CAUSE RANK PEERS

PEERS: `wait` are in a collective operation and die of gloo's error, `work` are in none, `alone`
have no process group.
"""

import os
import signal
import socket
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


def wrong() -> None:
    """Raise what the test looks for, at this line."""
    raise ValueError("label 11 is out of range")


class Labels(Dataset[int]):  # type: ignore[misc]
    """Fails in a DataLoader's worker."""

    def __init__(self, *, is_killed: bool) -> None:
        self.is_killed = is_killed

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if self.is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        wrong()
        return index


def in_child(_number: int) -> None:
    """Fail in a process that mp.spawn started."""
    wrong()


def as_hydra_does() -> None:
    """Print the error and exit, as hydra._internal.utils.run_and_report."""
    try:
        wrong()
    except ValueError as error:
        sys.stderr.write(f"Error executing job with overrides: []\n{error}\n")
        sys.exit(1)


def fail(cause: str) -> None:
    """Fail in the way that was chosen."""
    if cause == "network":  # of a tracker, a database or a hub
        socket.create_connection(("127.0.0.1", 9), timeout=3)
    elif cause.startswith("loader"):
        list(DataLoader(Labels(is_killed=cause == "loader-killed"), num_workers=1))
    elif cause == "spawn":
        mp.spawn(in_child, nprocs=1)
    elif cause == "hydra":
        as_hydra_does()
    elif cause == "port":
        with socket.create_server(("", 0)) as taken:
            dist.TCPStore("localhost", taken.getsockname()[1], is_master=True, use_libuv=False)
    wrong()  # `torchrun` and `forgotten`, a group that is not destroyed, among others


def main(cause: str, broken: int, peers: str) -> None:
    """Take part as this rank."""
    if peers != "alone":
        dist.init_process_group("gloo", timeout=timedelta(minutes=4))
        dist.all_reduce(torch.ones(1))
    if int(os.environ["RANK"]) == broken:
        print(f"rank {broken} is about to fail: {cause}", flush=True)
        fail(cause)
    if peers == "wait":
        dist.barrier()
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
