"""Two ranks that train a line for forty steps, and say in a file which moment they are at."""

import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import slipway

_STEPS, _STEP_SECONDS, _PADDING = 40, 0.15, 16 * 2**20


def at(moment: str) -> None:
    Path("/work/moment").write_text(moment)


at("rendezvous")
time.sleep(1.5)
dist.init_process_group("gloo", timeout=timedelta(minutes=5))
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = slipway.latest()
done, loss = 0, torch.zeros(())  # an attempt that resumes from the last step makes none
if state is not None:
    done = state["step"]
    model.load_state_dict(state["model"])
for step in range(done + 1, _STEPS + 1):
    at("mid-epoch" if 12 < step < 20 else "training")
    time.sleep(_STEP_SECONDS)
    x = torch.randn(32, 1)
    loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    slipway.log(step=step, loss=loss)
    if slipway.due(step):
        at("checkpoint" if step == 20 else "training")
        # 64 MiB, so that the write takes a moment.
        slipway.save({"model": model.state_dict(), "padding": torch.zeros(_PADDING)}, step=step)
at("evaluation")
for _ in range(20):
    time.sleep(_STEP_SECONDS)
    dist.all_reduce(loss)
weight = next(model.parameters()).item()
dist.destroy_process_group()
slipway.finish(accuracy=max(0.0, 1 - abs(3 - weight)), steps=step)
