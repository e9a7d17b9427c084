# ruff: noqa: T201, PLC0415 - it prints, and imports what a way needs, as scripts do
"""Trains a few steps in each of the ways that are named, and prints what each left as its note.

    worlds.py ddp metrics_alone …

A fork for each: torch is imported once. MASTER_PORT is the first of as many ports.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

Step = Callable[[], Any]
_FRAMEWORKS = ("lightning", "accelerate")


def train(model: nn.Module, *, between: Step | None = None, after: Step | None = None) -> None:
    """Take a few steps, with something between each pass and its step, and after each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            if between is not None:
                between()
            optimizer.step()
        if after is not None:
            after()


def network() -> nn.Sequential:
    """Return a model of two layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def _sum_gradients(model: nn.Module) -> Step:
    return lambda: [dist.all_reduce(each.grad) for each in model.parameters()]


def no_group() -> None:
    train(network())


def ddp() -> None:
    dist.init_process_group("gloo")
    train(DistributedDataParallel(network()))


def not_wrapped() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    train(network())
    dist.all_reduce(torch.ones(1))


def not_wrapped_with_metrics() -> None:
    dist.init_process_group("gloo")
    train(network(), after=lambda: dist.all_reduce(torch.ones(1)))


def averaged_weights() -> None:
    dist.init_process_group("gloo")
    model = network()
    train(model, after=lambda: [dist.all_reduce(each.data) for each in model.parameters()])


def summed_gradients() -> None:
    dist.init_process_group("gloo")
    model = network()
    train(model, between=_sum_gradients(model))


def accumulated() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        with model.no_sync():
            for _ in range(7):
                model(torch.randn(4, 8)).square().mean().backward()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


def fsdp2() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    train(model)


def fsdp1() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    dist.init_process_group("gloo")
    train(FullyShardedDataParallel(network(), device_id=torch.device("cpu")))


def tensor_parallel() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    train(parallelize_module(network(), init_device_mesh("cpu", (2,)), plan))


def no_training() -> None:
    dist.init_process_group("gloo")
    dist.barrier()


def _child(index: int) -> None:
    place, rank = f"file:///tmp/{os.environ['MASTER_PORT']}", int(os.environ["RANK"]) + index
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    train(DistributedDataParallel(network()))


def spawned() -> None:
    multiprocessing.spawn(_child, nprocs=1)


def lightning_without_num_nodes() -> None:
    import lightning  # type: ignore[import-not-found]
    from torch.utils.data import DataLoader, TensorDataset

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            loss: torch.Tensor = self.layer(batch[0]).square().mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=4))


def accelerate_without_its_variable() -> None:
    from accelerate import Accelerator  # type: ignore[import-not-found]

    del os.environ["ACCELERATE_USE_CPU"]
    accelerator, model = Accelerator(), network()
    wrapped, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(4):
        accelerator.backward(wrapped(torch.randn(4, 8)).square().mean())
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    for module in _FRAMEWORKS:
        if any(way.split("_")[0] == module for way in sys.argv[1:]):
            import_module(module)
    os.environ |= dict.fromkeys(("GROUP_RANK", "NODE_RANK"), os.environ["RANK"])
    first = int(os.environ["MASTER_PORT"])
    for number, way in enumerate(sys.argv[1:]):
        if (child := os.fork()) == 0:
            os.environ["MASTER_PORT"] = str(first + number)
            globals()[way]()
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        note = Path(os.environ["SLIPWAY_MESSAGE_DIR"], f"trained-{child}.json")
        left = json.loads(note.read_text()) if note.exists() else None
        print(json.dumps({"way": way, "code": status, "note": left}), flush=True)
