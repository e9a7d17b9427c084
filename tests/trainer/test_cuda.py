"""Training for GPUs without one: under a fake one, and with the wheels of torch for CUDA."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.context import Silence
from core.paths import cache_dir
from images.build import pip
from images.build.releases import RELEASES
from images.build.runner import Runner
from images.build.trainer import TRAINER_CUDA, trainer
from tests.trainer.conftest import Opened, opened

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
_LOOK = """
import torch, torchvision
assert torch.distributed.is_nccl_available()
print(torch.__version__, torch.version.cuda, *torch._C._cuda_getArchFlags().split())
"""


def test_ranks_meet_over_nccl_each_with_its_gpu_and_calculate_with_bf16(image: Opened) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize("torch", [each.torch for each in RELEASES.values() if each.cuda])
def test_they_load_and_have_the_cuda_nccl_and_kernels_of_the_table(
    torch: str, tmp_path: Path
) -> None:
    """In another image of the same suite, which has all else that they need."""
    release = RELEASES[torch]
    alike = (each for each in RELEASES.values() if each.suite == release.suite and each.debian)
    lock = TRAINER_CUDA.context / f"requirements.cuda-{torch}.lock"
    with (
        TemporaryDirectory(dir=cache_dir()) as directory,
        opened(trainer(next(alike).torch), tmp_path) as image,
    ):
        packages = Path(directory, "packages")
        pip.install(lock, packages, Runner(tmp_path / "log", Silence()), release.python)
        Path(directory).chmod(0o755)
        found = image.run(
            *("env", "PYTHONPATH=/packages", "python3", "-c", _LOOK), mounts={packages: "/packages"}
        )
    version, cuda, *kernels = found.split()
    assert version.startswith(f"{torch}.")
    assert (cuda, *kernels) == (release.cuda, *release.architectures)
