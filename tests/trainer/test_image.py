"""What is in the trainer's image."""

import gzip
import hashlib
import subprocess

from images.datasets.mnist import ARCHIVES
from images.spec import TRAINER
from tests.trainer.conftest import Opened

# Digits 0 to 9, as counted in the set that LeCun, Cortes and Burges published.
_TRAIN = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
_TEST = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
_COUNT = """
from torchvision.datasets import MNIST
for train in (True, False):
    print(*MNIST("/data/mnist", train=train).targets.bincount().tolist())
"""


def test_it_has_all_of_mnist(image: Opened) -> None:
    train, test = image.run("python3", "-c", _COUNT).splitlines()
    assert tuple(map(int, train.split())) == _TRAIN
    assert tuple(map(int, test.split())) == _TEST


def test_the_files_are_those_whose_archives_torchvision_publishes() -> None:
    """Compressed as they once were, they give the published archives to the byte."""
    directory = TRAINER.datasets["mnist"].directory
    for archive in ARCHIVES:
        raw = directory / archive.path
        made = subprocess.run(
            ["gzip", "-6", "--no-name", "--stdout", str(raw)], capture_output=True, check=True
        ).stdout
        published = archive.header() + made[10:]
        assert hashlib.md5(published, usedforsecurity=False).hexdigest() == archive.md5
        assert gzip.decompress(published) == raw.read_bytes()


def test_it_runs_as_a_user_without_rights(image: Opened) -> None:
    assert image.run("id", "--user").strip() == "65532"
    assert image.run("sh", "-c", "test -w /opt/slipway -o -w /data || echo no").strip() == "no"


def test_torch_multiplies_with_openblas(image: Opened) -> None:
    code = "import torch; print(open('/proc/self/maps').read())"
    assert "openblas-openmp/libopenblas" in image.run("python3", "-c", code)


def test_programs_keep_their_licenses(image: Opened) -> None:
    assert image.run("ls", "/usr/share/doc/libtorch2.6/copyright").strip()
