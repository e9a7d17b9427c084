"""What training does differently on a GPU, under a fake one: it has not run on a real one."""

import json
from typing import Any

from tests.trainer.conftest import Opened

_JOINS = """
import json, os, torch, torch.distributed as dist
from datetime import timedelta
from slipway_trainer.training import distributed
from slipway_trainer.demos import precision
told = {}
torch.cuda.is_available = lambda: True
torch.cuda.set_device = lambda device: told.update(set=str(device))
dist.init_process_group = lambda backend, **options: told.update(
    backend=backend, device_id=str(options["device_id"]))
dist.get_rank, dist.get_world_size = lambda: 1, lambda: 2
os.environ |= {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
backend = distributed.default_backend(use_cuda=True)
world = distributed.join(backend, timedelta(minutes=1), use_cuda=True)
told["without"] = distributed.default_backend(use_cuda=False)
distributed.DistributedDataParallel = lambda net, **options: told.update(
    bucket=options["bucket_cap_mb"], devices=list(map(str, options["device_ids"])))
distributed.parallel(torch.nn.Linear(1, 1), world)
few = torch.zeros(1, device="meta").as_subclass(type("Few", (torch.Tensor,), {
    "device": torch.device("cuda")}))
for has in (True, False):
    torch.cuda.is_bf16_supported = lambda including_emulation: has and not including_emulation
    told[f"precision {has}"] = precision.choose(None, few, None, lambda *mine: list(mine))
print(json.dumps(told))
"""
# A fake tensor has a device and a shape but no numbers: whatever reads one fails.
_COUNTS = """
import json, torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from slipway_trainer.training.metrics import ClassAccuracy, TopKAccuracy
from slipway_trainer.training.validation import evaluate
seen = []
def batches():
    for number in range(3):
        seen.append(number)
        yield torch.empty(8, 4, device="cuda"), torch.empty(8, dtype=torch.int64, device="cuda")
metrics = [TopKAccuracy(1), TopKAccuracy(5), ClassAccuracy(tuple("abcd"))]
with FakeTensorMode():
    net = torch.nn.Identity()
    try:
        evaluate(batches(), net, torch.nn.functional.cross_entropy, metrics, None)
    except DataDependentOutputException as error:
        print(json.dumps({"batches": seen, "read": str(error)}))
"""
_TIMES = """
import json, torch
from slipway_trainer.training.timings import EpochTimings
clock, waits = [0.0], []
class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): self.at = clock[0]
    def synchronize(self): waits.append(self.at)
    def elapsed_time(self, other): return other.at - self.at
torch.cuda.Event, torch.cuda.is_initialized = Event, lambda: True
timings = EpochTimings()
timings.resume()
for step in range(1000):
    for name, milliseconds in (("data", 1), ("forward", 2), ("backward", 4), ("optimizer", 3)):
        clock[0] += milliseconds
        timings.part(name)
timings.pause()
state = timings.state()
print(json.dumps({"parts": timings.parts, "waits": len(waits), "plain": state["events"]}))
"""


def told(image: Opened, program: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(image.run("python3", "-c", program))
    return found


def test_ranks_meet_over_nccl_each_with_its_gpu_and_calculate_with_bf16(image: Opened) -> None:
    """On a GPU.

    Nccl with its device, bf16, torch's buckets, counts read once, times of the GPU's events (under
    a fake one).
    """
    assert told(image, _JOINS) == {
        "set": "cuda:1",
        "backend": "nccl",
        "device_id": "cuda:1",
        "without": "gloo",
        "bucket": None,  # torch's own
        "devices": ["cuda:1"],
        "precision True": ["bf16", None],
        "precision False": ["fp32", None],
    }


def test_a_validation_reads_nothing_before_its_last_batch(image: Opened) -> None:
    found = told(image, _COUNTS)
    assert found["batches"] == [0, 1, 2]
    assert "local_scalar_dense" in found["read"]


def test_parts_of_steps_are_timed_by_the_gpus_events(image: Opened) -> None:
    found = told(image, _TIMES)
    seconds = {"data": 1.0, "forward": 2.0, "backward": 4.0, "optimizer": 3.0}
    assert {name: round(value, 6) for name, value in found["parts"].items()} == seconds
    assert found["waits"] <= 6, "of 1,000 steps"
    assert found["plain"] == []
