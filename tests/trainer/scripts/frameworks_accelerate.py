# ruff: noqa: T201 - it prints, as scripts do
"""Accelerate's and Hugging Face's Trainer's own view of who they are, and a tracker's numbers."""

import json

import torch
from accelerate import Accelerator  # type: ignore[import-not-found]
from transformers import TrainingArguments  # type: ignore[import-not-found]

from slipway.accelerate import SlipwayTracker

accelerator = Accelerator(cpu=True, log_with=SlipwayTracker())
accelerator.init_trackers("mine")
found = {"rank": accelerator.process_index, "world": accelerator.num_processes}
# 1 + 2, unless each is alone.
total = accelerator.reduce(torch.tensor(accelerator.process_index + 1), reduction="sum")
arguments = TrainingArguments(output_dir="/tmp/outputs", use_cpu=True, report_to=[])
assert found == {"rank": arguments.process_index, "world": arguments.world_size}
for epoch in (1, 2):
    accelerator.log({"epoch": epoch, "val_loss": total / epoch}, step=10 * epoch)
accelerator.log({"accuracy": 0.5})
print(json.dumps({**found, "node": arguments.process_index, "steps": total.item()}))
accelerator.end_training()
