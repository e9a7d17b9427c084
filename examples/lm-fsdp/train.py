"""Train a small language model with FSDP2, and go on from its checkpoints on any number of ranks.

RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 python3 train.py

It predicts the next byte of the source of Python's standard library. It needs torch 2.9.
"""

import argparse
import os
import shutil
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn, optim
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import slipway


class Model(nn.Module):  # type: ignore[misc]  # torch is inside the image alone
    """A transformer: from (batch, context) bytes to (batch * context, 256) logits of the next."""

    def __init__(self, width: int, layers: int, context: int) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        shape = (width, width // 32, 4 * width, 0.0)
        options = {"batch_first": True, "norm_first": True}
        blocks = (nn.TransformerEncoderLayer(*shape, **options) for _ in range(layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], x.device)
        x = self.embedding(x) + self.position.weight
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.head(self.norm(x).flatten(0, 1))


class Checkpoints:
    """Sharded checkpoints, each a directory named by its step, written beside the training."""

    def __init__(self, directory: Path, model: nn.Module, optimizer: optim.Optimizer) -> None:
        self.directory, self.model, self.optimizer = directory, model, optimizer
        # The thread that writes has its own, so that its messages do not mix with the training's.
        self.group = dist.new_group(backend="gloo")
        self.on_gpu = next(model.parameters()).is_cuda
        # In order: pinned memory, shared memory, in a thread, copies that do not block.
        self.stager = DefaultStager(StagingOptions(self.on_gpu, False, True, self.on_gpu))
        self.saved = 0
        self.response: Any = None

    def load(self) -> int:
        """Load the newest complete checkpoint; return its step, 0 when there is none."""
        agreed = torch.tensor(0)
        if dist.get_rank() == 0:
            agreed.fill_(max(filter(self._is_complete, self._steps()), default=0))
        dist.broadcast(agreed, 0)
        newest = int(agreed)
        self._remove(step for step in self._steps() if step > newest)
        if newest > 0:
            state = self.state()
            dcp.load(state, checkpoint_id=self.directory / str(newest))
            set_state_dict(
                self.model, self.optimizer,
                model_state_dict=state["model"], optim_state_dict=state["optimizer"],
            )  # fmt: skip
        return newest

    def save(self, step: int) -> None:
        """Begin to copy the state after `step` steps, and then to write the copy."""
        self.finish()
        self.saved = step
        if self.on_gpu:
            torch.cuda.synchronize()  # the copy has a stream of its own
        self.response = dcp.async_save(
            self.state(), checkpoint_id=self.directory / str(step),
            process_group=self.group, async_stager=self.stager,
        )  # fmt: skip

    def wait_until_copied(self) -> None:
        """Wait until the state may change."""
        if self.response is not None:
            self.response.staging_completion.result()

    def finish(self) -> None:
        """Wait until what is being written is complete, and remove older checkpoints."""
        if self.response is not None:
            self.response.upload_completion.result()
            self.response, keep = None, int(os.environ.get("SLIPWAY_CHECKPOINT_KEEP", "2"))
            # Another rank may have begun with the next one.
            self._remove([step for step in self._steps() if step <= self.saved][:-keep])

    def state(self) -> dict[str, Any]:
        """Return the shards of this rank themselves, no copies, for `dcp`."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def _steps(self) -> list[int]:
        return sorted(int(path.name) for path in self.directory.glob("[0-9]*"))

    def _is_complete(self, step: int) -> bool:
        # Rank 0 writes it last, when the files of all ranks are on the disk. It names them.
        metadata = self.directory / str(step) / ".metadata"
        if not metadata.exists():
            return False
        files = dcp.FileSystemReader(metadata.parent).read_metadata().storage_data.values()
        return all(metadata.with_name(file.relative_path).exists() for file in files)

    def _remove(self, steps: Iterable[int]) -> None:
        for step in steps:  # on all ranks: each may have a disk of its own, or all the same
            shutil.rmtree(self.directory / str(step), ignore_errors=True)


def sharded(args: argparse.Namespace) -> tuple[nn.Module, optim.Optimizer]:
    """Return the model, sharded over all ranks, and its optimizer."""
    device = "cuda" if args.backend == "nccl" else "cpu"
    torch.manual_seed(args.seed)  # the same weights on each rank, which keeps its shard of them
    model = Model(args.width, args.layers, args.context).to(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh)
    return model, optim.AdamW(model.parameters(), lr=args.lr)


def loss_of(model: nn.Module, text: Tensor, starts: Tensor, context: int) -> Tensor:
    """Return this rank's part of the mean loss over all windows of `text`, which begin at `starts`.

    The windows are the same on any number of ranks, each of which takes its share.
    """
    mine = starts[dist.get_rank() :: dist.get_world_size()]
    windows = text[mine[:, None] + torch.arange(context + 1)].long().to(model.head.weight.device)
    logits, following = model(windows[:, :-1]), windows[:, 1:].flatten()
    return F.cross_entropy(logits, following, reduction="sum") / (len(starts) * context)


def total(part: Tensor) -> float:
    """Return the sum of all ranks' parts."""
    dist.all_reduce(part := part.detach().clone())
    return float(part)


def run(args: argparse.Namespace, directory: str | None) -> None:
    """Train, and report the losses; without a directory no checkpoints are written."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    data = bytearray(b"".join(file.read_bytes() for file in files)[:4_000_000])
    text, last = torch.frombuffer(data, dtype=torch.uint8).tensor_split([len(data) * 95 // 100])
    places = torch.linspace(0, len(last) - args.context - 1, args.batch_size).long()
    model, optimizer = sharded(args)
    checkpoints = Checkpoints(Path(directory or "checkpoints"), model, optimizer)
    for step in range(checkpoints.load() + 1, args.steps + 1):
        random = torch.Generator().manual_seed(args.seed * 1_000_000 + step)
        starts = torch.randint(len(text) - args.context, (args.batch_size,), generator=random)
        loss = loss_of(model, text, starts, args.context)
        (loss * dist.get_world_size()).backward()  # FSDP takes the mean of all ranks' gradients
        checkpoints.wait_until_copied()
        optimizer.step()
        optimizer.zero_grad()
        if directory is not None and step % args.save_every == 0:
            checkpoints.save(step)
        if step % args.log_every == 0 or step == args.steps:
            with torch.no_grad():
                val_loss = total(loss_of(model, last, places, args.context))
            slipway.log(step=step, loss=total(loss), val_loss=val_loss)
    checkpoints.finish()
    checkpoints.stager.close()
    slipway.finish(dataset="python-stdlib")


if __name__ == "__main__":
    every, unit = os.environ.get("SLIPWAY_CHECKPOINT_EVERY", "50 steps").split()
    numbers = {
        "steps": 300, "batch-size": 24, "context": 96, "width": 96, "layers": 2, "lr": 3e-3,
        "seed": 1, "log-every": 25, "save-every": int(every) if unit == "steps" else 50,
    }  # fmt: skip
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    if (args := parser.parse_args()).backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if args.backend == "nccl" else "gloo")
    run(args, os.environ.get("SLIPWAY_CHECKPOINT_DIR"))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo may wait for Python while it ends: pytorch/pytorch#190489
