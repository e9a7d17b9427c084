# ruff: noqa: T201 - it prints, as scripts do
"""A program of which one rank fails by an error of its own, wrapped, followed or drowned by others.

    raising.py CAUSE RANK PEERS

PEERS: `wait` are in a collective operation and die of gloo's error, `work` are in none, `alone`
have no process group.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import util
from types import TracebackType

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


def wrong(more: str = "") -> None:
    """Raise what the test looks for, at this line."""
    raise ValueError("label 11 is out of range" + more)


def refused() -> None:
    """Lose a tracker, a database or a hub."""
    socket.create_connection(("127.0.0.1", 9), timeout=3)


def in_thread() -> None:
    """Fail beside the program."""
    raise ConnectionResetError(104, "Connection reset by peer")


def noise() -> None:
    """Have a thread print a traceback."""
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()


class Held:
    """Fails when it goes."""

    def __del__(self) -> None:
        raise BrokenPipeError(32, "Broken pipe")


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


def as_hydra_does(work: Callable[[], None]) -> None:
    """Print the error and exit, as hydra._internal.utils.run_and_report."""
    try:
        work()
    except ValueError as error:
        sys.stderr.write(f"Error executing job with overrides: []\n{error}\n")
        sys.exit(1)


def then_noise(*what: object) -> None:
    """Print the traceback, and have a thread print another one."""
    kind, error, trace = what
    assert isinstance(kind, type)
    assert isinstance(error, BaseException)
    assert isinstance(trace, TracebackType)
    sys.__excepthook__(kind, error, trace)
    noise()


def fail(cause: str) -> None:  # noqa: C901, PLR0912 - one way after the other
    """Fail in the way that was chosen."""
    if cause == "network":
        refused()
    elif cause == "noise-before":
        noise()
    elif cause == "noise-after":
        sys.excepthook = then_noise
    elif cause == "destructor":
        globals()["held"] = Held()
    elif cause == "semaphores":
        globals()["kept"] = [multiprocessing.get_context("spawn").Semaphore() for _ in range(6)]
        util._finalizer_registry.clear()  # type: ignore[attr-defined]
    elif cause == "lines":
        wrong("\nwhile reading: sample 7 of shard 3\nsee the data's README")
    elif cause == "text":
        sys.exit("no labels in /data")
    elif cause == "group":
        try:
            wrong()
        except ValueError as error:
            raise ExceptionGroup("epoch 1", [error]) from None
    elif cause.startswith("loader"):
        list(DataLoader(Labels(is_killed=cause == "loader-killed"), num_workers=1))
    elif cause == "spawn":
        mp.spawn(in_child, nprocs=1)
    elif cause == "hydra":
        as_hydra_does(wrong)
    elif cause == "nan":
        raise FloatingPointError("the loss is nan in step 7")
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
