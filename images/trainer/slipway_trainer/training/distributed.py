"""Join the process group that torchrun or a PyTorchJob sets up, or train as a single rank."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """The ranks that train together, and this process's rank."""

    rank: int
    size: int
    device: torch.device


def default_backend(use_cuda: bool) -> str:
    """Return nccl if ranks train on GPUs, otherwise gloo."""
    return "nccl" if use_cuda and torch.cuda.is_available() else "gloo"


def join(backend: str, timeout: timedelta, use_cuda: bool) -> World:
    """Wait for all ranks and return the world they form.

    The backend is gloo or nccl. `timeout` limits the wait for other ranks, here and in every
    collective operation. With `use_cuda`, a rank trains on its GPU, if it has one. Raises
    `ValueError` for nccl without a GPU, and `RuntimeError` if not all ranks join in time.
    """
    cuda = use_cuda and torch.cuda.is_available()
    if backend == "nccl" and not cuda:
        raise ValueError("--backend nccl requires a GPU, but torch finds none; use --backend gloo")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(
        backend,
        timeout=timeout,
        # Makes NCCL connect here, where a missing rank is reported, rather than in the first step.
        device_id=device if backend == "nccl" else None,
        **({} if "WORLD_SIZE" in os.environ else alone),
    )
    return World(dist.get_rank(), dist.get_world_size(), device)


def total(*values: float) -> list[float]:
    """Return each of `values` summed over all ranks, or unchanged if there is no process group."""
    if not dist.is_initialized():
        return list(values)
    # NCCL reduces tensors on a GPU, Gloo those in host memory.
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    totals = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    return [*totals.tolist()]


def parallel(net: nn.Module, world: World) -> nn.Module:
    """Wrap `net` so that it averages its gradients over all ranks."""
    if world.size == 1:
        return net
    is_cuda = world.device.type == "cuda"
    return DistributedDataParallel(
        net,
        device_ids=[world.device] if is_cuda else None,
        # On a CPU, all gradients in one message, as sending can't overlap with computation. On a
        # GPU, NCCL overlaps them, with torch's default size.
        bucket_cap_mb=None if is_cuda else 100,
        gradient_as_bucket_view=True,
        static_graph=True,
    )


def synchronize_buffers(net: nn.Module) -> None:
    """Broadcast rank 0's buffers to all ranks, as DistributedDataParallel does before each step."""
    if dist.is_initialized():
        for buffer in net.buffers():
            dist.broadcast(buffer, src=0)
