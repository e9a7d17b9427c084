"""torchvision's own loaders find the image's data where a program looks, without a network."""

import json
from pathlib import Path
from typing import Any

import pytest

from images.datasets.cifar10 import CIFAR10
from images.datasets.dataset import Dataset
from tests.trainer.conftest import Opened

_PROGRAM = Path(__file__).with_name("scripts") / "torchvisions_loaders.py"
_ROOTS = ("../data", "data", "/data", "/proc/no")


@pytest.fixture
def taken() -> Dataset:
    """CIFAR-10, or what stands in for it."""
    taken = CIFAR10.taken()
    assert taken is not None
    return taken


@pytest.fixture(scope="module")
def found(image: Opened) -> Any:
    """What the program has found, which starts in an empty directory."""
    start = 'cd "$(mktemp -d -p "$(mktemp -d)")" && exec python3 /program.py "$@"'
    printed = image.run("sh", "-c", start, "sh", *_ROOTS, mounts={_PROGRAM: "/program.py"})
    return json.loads(printed.splitlines()[-1])


def test_a_loader_finds_its_data_below_any_root(found: Any, taken: Dataset) -> None:
    """Also where nothing can be written, and also without `download` once the files are there."""
    digits, clothes = [60000, 10000, 5], [60000, 10000, 9]
    mnist = {"MNIST": digits, "FashionMNIST": clothes, "FastMNIST": digits}
    pictures = {**mnist, "CIFAR10": [50000, 10000, 6 if taken.name == "cifar10" else 9]}
    expected = {"../data": mnist, "data": pictures, "/data": mnist, "/proc/no": pictures}
    assert {root: found[root] for root in _ROOTS} == expected


def test_several_ranks_look_at_once_no_file_changes_and_other_data_sets_are_downloaded(
    found: Any, taken: Dataset
) -> None:
    """Theirs are no digits of MNIST's, though their loaders are subclasses of its."""
    assert found["racing"] == [0] * 8
    assert found["kept"] == {"labels": 1000, "refused": True}
    assert found["classes"] == list(taken.classes)
    assert found["others"] == dict.fromkeys(("KMNIST", "QMNIST", "CIFAR100", "EMNIST"), True)


def test_a_program_without_torchvision_does_not_load_it(image: Opened) -> None:
    code = "import sys; print([each for each in sys.modules if 'torch' in each])"
    assert image.run("python3", "-c", code).strip() == "[]"
