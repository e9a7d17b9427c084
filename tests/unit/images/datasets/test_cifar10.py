"""CIFAR-10, and Fashion-MNIST's pictures in its format."""

import gzip
import io
import pickle
import struct
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from images.build import debian
from images.datasets import cifar10
from images.datasets.dataset import NotAvailable
from tests.unit.images.objects import Listener


class Made:
    """What numpy would make, by `_reconstruct` and `dtype`: of arguments, and then its state."""

    state: tuple[Any, ...] = ()

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


class Unpickler(pickle.Unpickler):
    """Reads batches where there is no numpy."""

    def find_class(self, module: str, name: str) -> Any:
        return {
            ("numpy.core.multiarray", "_reconstruct"): Made,
            ("numpy", "dtype"): Made,
            ("numpy", "ndarray"): "ndarray",
        }[module, name]


def _load(data: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = Unpickler(io.BytesIO(data), encoding="latin1").load()
    return loaded


def _bytes(array: Made) -> bytes:
    raw: str = array.state[4]
    return raw.encode("latin1")


def test_a_batch_is_a_pickle_of_python_2_that_numpy_reads() -> None:
    data = bytes(range(256)) * 24
    batch = _load(cifar10.dump({"labels": [3, 1], "data": data, "note": "x"}))
    assert batch["labels"] == [3, 1]
    assert batch["note"] == "x"
    assert batch["data"].arguments == ("ndarray", (0,), "b")
    version, shape, kind, fortran, _ = batch["data"].state
    assert (version, shape, fortran) == (1, (2, 3072), False)
    assert kind.arguments == ("u1", 0, 1)
    assert _bytes(batch["data"]) == data


def test_texts_are_strings_of_python_2_which_the_reader_decodes() -> None:
    whole = cifar10.dump({"name": "x"})
    read = [Unpickler(io.BytesIO(whole), encoding=each).load() for each in ("bytes", "latin1")]
    assert read == [{b"name": b"x"}, {"name": "x"}]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's package with 14 training pictures of two classes and one for the test."""

    def unpack(package: str, directory: Path) -> None:
        folder = directory / "usr/share/datasets" / package.removeprefix("dataset-")
        folder.mkdir(parents=True)
        for part, labels in (("train", [0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1]), ("t10k", [1])):
            pictures = b"".join(bytes([place]) * 784 for place in range(len(labels)))
            head = struct.pack(">4i", 2051, len(labels), 28, 28)
            images, places = f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
            (folder / images).write_bytes(gzip.compress(head + pictures))
            text = struct.pack(">2i", 2049, len(labels)) + bytes(labels)
            (folder / places).write_bytes(gzip.compress(text))

    monkeypatch.setattr(debian, "unpack", unpack)
    monkeypatch.setattr(cifar10, "_PER_CLASS", 5)
    monkeypatch.setattr(cifar10, "_PER_BATCH", 2)


@pytest.mark.usefixtures("_small")
def test_each_class_gives_the_same_number_of_pictures_in_their_order(tmp_path: Path) -> None:
    """A picture is centred in three equal colors."""
    cifar10.from_debian(tmp_path, Listener())
    folder = tmp_path / "cifar-10-batches-py"
    read = {path.name: _load(path.read_bytes()) for path in folder.iterdir()}
    trained = [read[f"data_batch_{number}"] for number in range(1, 6)]
    labels = [label for batch in trained for label in batch["labels"]]
    assert labels == [0, 1, 1, 0, 1, 0, 1, 0, 0, 1]
    assert trained[4]["filenames"] == ["train_00008.png", "train_00009.png"]
    assert trained[4]["batch_label"] == "training batch 5 of 5"
    assert read["test_batch"]["labels"] == [1]
    assert read["batches.meta"]["label_names"] == list(cifar10.FASHION_MNIST.classes)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-batches-py"]
    row = _bytes(trained[3]["data"])[:3072]
    red, green, blue = row[:1024], row[1024:2048], row[2048:]
    assert red == green == blue
    lines = [red[start : start + 32] for start in range(0, 1024, 32)]
    assert lines[:2] == lines[-2:] == [bytes(32)] * 2
    assert lines[2:-2] == [b"\0\0" + b"\6" * 28 + b"\0\0"] * 28


def test_without_the_package_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailable, match="apt-get"):
        cifar10.from_debian(tmp_path, Listener())


def test_only_the_published_archive_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = cifar10.CIFAR10
    assert not real.is_at_hand()
    cifar10.archive().parent.mkdir(parents=True)
    with tarfile.open(cifar10.archive(), "w:gz") as tar:
        for name in cifar10.CIFAR10.files:
            tar.addfile(tarfile.TarInfo(name))
    assert real.is_at_hand()
    by_hand = replace(real, sources=real.sources[:1])
    with pytest.raises(NotAvailable, match=r"the md5 of .*data_batch_1 is d41d8.* instead of c99"):
        by_hand.ensure(Listener())
    cifar10.archive().write_text("<html>")
    with pytest.raises(NotAvailable, match="can't be unpacked"):
        by_hand.ensure(Listener())
    assert not real.directory.exists()
