"""What releases.yaml says of torch for GPUs is what its wheels have, loaded without a GPU."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.context import Silence
from core.paths import cache_dir
from images.build import pip
from images.build.releases import RELEASES
from images.build.runner import Runner
from images.build.trainer import TRAINER_CUDA, trainer
from tests.trainer.conftest import opened

_LOOK = """
import torch, torchvision
assert torch.distributed.is_nccl_available()
print(torch.__version__, torch.version.cuda, *torch._C._cuda_getArchFlags().split())
"""


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
