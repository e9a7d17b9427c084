"""What training does differently on a GPU, under a fake one: it has not run on a real one."""

import json

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


def test_ranks_meet_over_nccl_each_with_its_gpu_and_calculate_with_bf16(image: Opened) -> None:
    """On a GPU: NCCL with its device, bf16 and torch's buckets (under a fake one)."""
    assert json.loads(image.run("python3", "-c", _JOINS)) == {
        "set": "cuda:1",
        "backend": "nccl",
        "device_id": "cuda:1",
        "without": "gloo",
        "bucket": None,  # torch's own
        "devices": ["cuda:1"],
        "precision True": ["bf16", None],
        "precision False": ["fp32", None],
    }
