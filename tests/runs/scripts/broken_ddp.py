# ruff: noqa: T201 - it prints, as scripts do
"""An ordinary DDP training of which one rank breaks after some steps.

    broken_ddp.py CAUSE RANK PEERS

PEERS: `gloo` trains on and dies of gloo's error, `sleeps` waits for nothing in particular,
`ignores` catches what gloo reports and ends with 0.
"""

import ctypes
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

cause, broken, peers = sys.argv[1], int(sys.argv[2]), sys.argv[3]
is_broken = int(os.environ["RANK"]) == broken
if is_broken and cause == "import":
    import there_is_no_such_package  # type: ignore[import-not-found]  # noqa: F401

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

_BROKEN_AT = 5


def fail() -> None:
    """Break in the way that was chosen; `kill` is up to the test."""
    print(f"rank {broken} is about to break: {cause}", flush=True)
    if cause == "exception":
        raise ValueError("a mistake of this script")
    if cause == "exit":
        sys.exit(7)
    if cause == "os-exit":
        os._exit(9)
    if cause == "memory":
        hoard = []
        while True:
            hoard.append(b"x" * (64 << 20))
    if cause == "disk":
        Path("/tmp/too-much").write_bytes(bytes(200 << 20))
    if cause == "segfault":
        ctypes.string_at(0)
    if cause == "sigterm":
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        os.kill(os.getpid(), signal.SIGTERM)
    if cause == "early":
        sys.exit(0)
    time.sleep(600)  # `hang`, and `kill` and `disk` until it is ended


# On a busy machine one may start a minute after the other; a hang need not be waited out that long,
# and a node may take more than a minute to find out that a pod uses too much of its disk.
dist.init_process_group("gloo", timeout=timedelta(minutes=4))
group = dist.new_group(timeout=timedelta(seconds={"hang": 8, "disk": 180}.get(cause, 60)))
model = DistributedDataParallel(nn.Linear(1000, 100), process_group=group)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10_000):
    if step == _BROKEN_AT and is_broken:
        fail()
    if step == _BROKEN_AT and peers == "sleeps":
        time.sleep(600)
    try:
        optimizer.zero_grad()
        model(torch.randn(8, 1000)).square().mean().backward()
        optimizer.step()
    except RuntimeError:
        if peers != "ignores":
            raise
        break
    time.sleep(0.01)
print("trained", flush=True)
os._exit(0)  # its peers are gone: without a tear-down that waits for them
