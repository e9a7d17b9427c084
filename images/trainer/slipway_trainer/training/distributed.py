"""The process group: of torchrun's or a PyTorchJob's environment, or without that one rank."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """The ranks that train together, and which of them this one is."""

    rank: int
    size: int
    device: torch.device


def default_backend(use_cuda: bool) -> str:
    """Return nccl where ranks train on GPUs, and gloo elsewhere."""
    return "nccl" if use_cuda and torch.cuda.is_available() else "gloo"


def join(backend: str, timeout: timedelta, use_cuda: bool) -> World:
    """Wait for all ranks and return the world they form.

    The backend is gloo or nccl. `timeout` is for the other ranks, here and in every collective
    operation. With `use_cuda` a rank trains on its GPU, where there is one. Raises `ValueError` for
    nccl without a GPU, and `RuntimeError` with how many ranks came in time.
    """
    cuda = use_cuda and torch.cuda.is_available()
    if backend == "nccl" and not cuda:
        raise ValueError("--backend nccl needs a GPU, and torch sees none; use --backend gloo")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(
        backend,
        timeout=timeout,
        # NCCL then connects now, where a rank that is missing is reported, not in the first step.
        device_id=device if backend == "nccl" else None,
        **({} if "WORLD_SIZE" in os.environ else alone),
    )
    return World(dist.get_rank(), dist.get_world_size(), device)


def total(*values: float) -> list[float]:
    """Return each of `values` summed over all ranks, or over this one without a process group."""
    if not dist.is_initialized():
        return list(values)
    # NCCL adds up what is on a GPU, Gloo what is in memory.
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    totals = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    return [*totals.tolist()]


def parallel(net: nn.Module, world: World) -> nn.Module:
    """Return `net`, made to average its gradients over all ranks."""
    if world.size == 1:
        return net
    is_cuda = world.device.type == "cuda"
    return DistributedDataParallel(
        net,
        device_ids=[world.device] if is_cuda else None,
        # All gradients in one message: a CPU has no time to send the first ones while it calculates
        # the others. On a GPU NCCL does just that, with torch's own size.
        bucket_cap_mb=None if is_cuda else 100,
        gradient_as_bucket_view=True,
        static_graph=True,
    )


def synchronize_buffers(net: nn.Module) -> None:
    """Give all ranks rank 0's buffers, as DistributedDataParallel does before each step."""
    if dist.is_initialized():
        for buffer in net.buffers():
            dist.broadcast(buffer, src=0)
