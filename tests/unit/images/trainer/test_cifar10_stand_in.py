"""torchvision takes a stand-in for CIFAR-10 by the checksums beside it, and says so."""

import json
import sys
from pathlib import Path
from typing import Any

import cifar10_stand_in
import pytest


@pytest.fixture
def cifar10(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """A class with what torchvision's has, and the addition."""
    monkeypatch.setattr(cifar10_stand_in, "_announced", set())

    class CIFAR10:
        base_folder = "cifar-10-batches-py"
        train_list = (("data_batch_1", "1"), ("data_batch_2", "2"))
        test_list = (("test_batch", "3"),)
        meta = {"filename": "batches.meta", "key": "label_names", "md5": "4"}  # noqa: RUF012

        def __init__(self, root: str, train: bool = True) -> None:
            self.root, self.train = root, train

    cifar10_stand_in.allow(CIFAR10)
    return CIFAR10


def _describe(root: Path, name: str) -> None:
    sums = {"data_batch_1": "a", "data_batch_2": "b", "test_batch": "c", "batches.meta": "d"}
    md5 = {f"cifar-10-batches-py/{file}": digest for file, digest in sums.items()}
    about = {"name": name, "classes": ["Shirt", "Bag"], "md5": md5}
    (root / "DATASET").write_text(json.dumps(about))


def test_the_stand_ins_checksums_hold_for_it(cifar10: type[Any], tmp_path: Path) -> None:
    _describe(tmp_path, "shirts-as-cifar10")
    made = cifar10(str(tmp_path), train=False)
    assert (made.root, made.train) == (str(tmp_path), False)
    assert made.train_list == [["data_batch_1", "a"], ["data_batch_2", "b"]]
    assert made.test_list == [["test_batch", "c"]]
    assert made.meta == {"filename": "batches.meta", "key": "label_names", "md5": "d"}


def test_what_the_pictures_are_is_said_once(
    cifar10: type[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _describe(tmp_path, "shirts-as-cifar10")
    cifar10(tmp_path)
    cifar10(tmp_path, train=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("shirts-as-cifar10, with the classes Shirt, Bag") == 1


@pytest.mark.parametrize("name", ["cifar10", None])
def test_nothing_changes_for_the_real_one(
    name: str | None, cifar10: type[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name is not None:
        _describe(tmp_path, name)
    assert cifar10(tmp_path).train_list is cifar10.train_list
    assert capsys.readouterr().err == ""


def test_nothing_changes_for_cifar100(cifar10: type[Any], tmp_path: Path) -> None:
    _describe(tmp_path, "shirts-as-cifar10")

    class CIFAR100(cifar10):  # type: ignore[misc]
        base_folder = "cifar-100-python"

    assert CIFAR100(tmp_path).train_list is cifar10.train_list


def test_it_needs_nothing_but_the_standard_library() -> None:
    source = Path(cifar10_stand_in.__file__).read_text()
    imported = {
        line.split()[1] for line in source.splitlines() if line.startswith(("import", "from"))
    }
    assert imported <= sys.stdlib_module_names
