# ruff: noqa: T201 - it prints, as scripts do
"""Reports numbers, and leaves a file to keep, one that is kept, and one that is neither."""

import os
import sys
from pathlib import Path

import slipway

print(f"hello from rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}:", *sys.argv[1:])
for epoch in (1, 2):
    slipway.log(epoch=epoch, val_loss=0.6 / epoch, accuracy=0.4 + epoch / 4)
Path("greeting.txt").write_text("hello")
Path("left.log").write_text("not kept")
Path(os.environ["SLIPWAY_OUTPUT_DIR"], "model.bin").write_bytes(b"weights")
slipway.finish(samples_seen=10, perplexity=12.4)
