"""A plain script of somebody's own that keeps its state by `slipway` alone, on gloo."""

import argparse
import hashlib
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import slipway
from slipway.events import Events

STEPS = 60


def main() -> None:
    """Train a net on numbers that follow from the step alone."""
    dist.init_process_group("gloo") if "WORLD_SIZE" in os.environ else None
    rank = int(os.environ.get("RANK", "0"))
    if "--own" in sys.argv and "SLIPWAY_CHECKPOINT_DIR" in os.environ:  # as with a store
        os.environ["SLIPWAY_CHECKPOINT_DIR"] += f"/{rank}"
    events = Events(rank)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(net.parameters())
    model = DistributedDataParallel(net) if dist.is_initialized() else net
    state = slipway.latest()
    if state is not None:
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(0 if state is None else state["step"], STEPS):
        data = torch.Generator().manual_seed(step * 100 + rank)
        x = torch.randn(512, 64, generator=data)
        loss: Any = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        events.emit("step", step=step, loss=float(loss))
        if slipway.due(step + 1):
            now = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            more = {"arguments": argparse.Namespace()} if "--bad" in sys.argv else {}
            slipway.save(now | more, step=step + 1, wait="--beside" not in sys.argv)
    weights = b"".join(each.numpy().tobytes() for each in net.state_dict().values())
    events.emit("done", weights=hashlib.sha256(weights).hexdigest())


main()
