"""CIFAR-10, and Fashion-MNIST images in its format, for machines that can't download it.

CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): 50,000 training and 10,000 test color images
of 32 x 32 pixels, in ten classes. Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist):
60,000 + 10,000 gray images of 28 x 28 pixels. They get a black border, two pixels wide, and three
equal color channels; only the first 5,000 training images in each class are used.

CIFAR-10's python format consists of pickles from Python 2 and its numpy. Python 3 can't write
Python 2 strings, and an array's pickle depends on the numpy version. So this module writes the few
opcodes (see `pickletools`) itself, with the same bytes everywhere.
"""

import gzip
import pickle
import shutil
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from core.context import Context
from images.build import debian
from images.datasets.dataset import Dataset, NotAvailable, Source, download, kept, unpack

# torchvision.datasets.CIFAR10: url; train_list, test_list and meta contain the checksums.
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE = "cifar-10-python.tar.gz"
PACKAGE = "dataset-fashion-mnist"
FOLDER = "cifar-10-batches-py"
_IN_PACKAGE = "usr/share/datasets/fashion-mnist"
_SIDE, _BORDER, _COLORS = 28, 2, 3
_VALUES = _COLORS * (_SIDE + 2 * _BORDER) ** 2
_PER_CLASS, _PER_BATCH = 5_000, 10_000

Picture = tuple[int, int, bytes]
"""An image's index in its file, its label, and its pixels."""
Value = str | int | bytes | Sequence["Value"]
"""A value in a batch. Bytes stand for a numpy array (n, `_VALUES`) of uint8."""


def archive() -> Path:
    """Return the path where users can put the archive, on machines that can't download it."""
    return kept() / ARCHIVE


def from_archive(directory: Path, reporter: Context) -> None:
    """Extract CIFAR-10's files from the user's archive, or else from a download."""
    packed = archive()
    if not packed.is_file():
        packed = directory / ARCHIVE
        download(URL, packed, reporter)
    unpack(packed, directory, {name: name for name in CIFAR10.files})
    (directory / ARCHIVE).unlink(missing_ok=True)


def from_debian(directory: Path, reporter: Context) -> None:
    """Download Fashion-MNIST as a Debian package, and write it in CIFAR-10's format."""
    package = directory / PACKAGE
    debian.unpack(PACKAGE, package)
    reporter.status(f"{PACKAGE}: writing its images in CIFAR-10's format")
    batches = directory / FOLDER
    batches.mkdir()
    try:
        training, counts = list[Picture](), Counter[int]()
        for picture in _pictures(package / _IN_PACKAGE, "train"):
            counts[picture[1]] += 1
            if counts[picture[1]] <= _PER_CLASS:
                training.append(picture)
        test = list(_pictures(package / _IN_PACKAGE, "t10k"))
    except (OSError, ValueError, struct.error) as error:
        raise NotAvailable(f"{PACKAGE} has unexpected content: {error}") from error
    shutil.rmtree(package)
    for number in range(5):
        chosen = training[number * _PER_BATCH : (number + 1) * _PER_BATCH]
        label = f"training batch {number + 1} of 5"
        (batches / f"data_batch_{number + 1}").write_bytes(_batch(chosen, label, "train"))
    (batches / "test_batch").write_bytes(_batch(test, "testing batch 1 of 1", "t10k"))
    names = FASHION_MNIST.classes
    meta = dump({"num_cases_per_batch": _PER_BATCH, "label_names": names, "num_vis": _VALUES})
    (batches / "batches.meta").write_bytes(meta)


def _pictures(folder: Path, part: str) -> Iterator[Picture]:
    """Read a pair of IDX files, as described in http://yann.lecun.com/exdb/mnist/."""
    images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    _, count, *sides = struct.unpack(">4i", images[:16])
    if sides != [_SIDE, _SIDE] or len(labels) != 8 + count:
        raise ValueError(f"{part}: {count} images of {sides} pixels, {len(labels) - 8} labels")
    size = _SIDE * _SIDE
    for place, label in enumerate(labels[8:]):
        yield place, label, images[16 + place * size : 16 + (place + 1) * size]


def _batch(pictures: Sequence[Picture], label: str, part: str) -> bytes:
    return dump(
        {
            "batch_label": label,
            "labels": [label for _, label, _ in pictures],
            "data": b"".join(_enlarged(pixels) * _COLORS for _, _, pixels in pictures),
            "filenames": [f"{part}_{place:05}.png" for place, _, _ in pictures],
        }
    )


def _enlarged(pixels: bytes) -> bytes:
    """Return the image (28 x 28) centered on a black one (32 x 32)."""
    side, edge = bytes(_BORDER), bytes(_BORDER * (_SIDE + 2 * _BORDER))
    rows = (pixels[start : start + _SIDE] for start in range(0, len(pixels), _SIDE))
    return b"".join((edge, *(side + row + side for row in rows), edge))


def dump(batch: Mapping[str, Value]) -> bytes:
    """Pickle a dictionary with protocol 2."""
    items = b"".join(_value(key) + _value(value) for key, value in batch.items())
    content = pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS
    return pickle.PROTO + b"\x02" + content + pickle.STOP


def _value(value: Value) -> bytes:
    match value:
        case str():
            # A Python 2 `str`, whose reader chooses the encoding.
            return _string(value.encode("ascii"))
        case int():
            return pickle.BININT + struct.pack("<i", value)
        case bytes():
            return _array(value)
        case _:
            return pickle.EMPTY_LIST + pickle.MARK + b"".join(map(_value, value)) + pickle.APPENDS


def _string(data: bytes) -> bytes:
    return pickle.BINSTRING + struct.pack("<i", len(data)) + data


def _array(rows: bytes) -> bytes:
    """Pickle a C-contiguous array as `ndarray.__reduce__` does, but with numpy 1's module names."""
    empty = _global("numpy ndarray") + _tuple(_value(0)) + _value("b")
    kind = _global("numpy dtype") + _tuple(_value("u1"), _value(0), _value(1)) + pickle.REDUCE
    order = (_value(3), _value("|"), pickle.NONE, pickle.NONE, pickle.NONE)
    kind += _tuple(*order, _value(-1), _value(-1), _value(0)) + pickle.BUILD
    shape = _tuple(_value(len(rows) // _VALUES), _value(_VALUES))
    array = _global("numpy.core.multiarray _reconstruct") + _tuple(empty) + pickle.REDUCE
    state = _tuple(_value(1), shape, kind, pickle.NEWFALSE, _string(rows))
    return array + state + pickle.BUILD


def _global(name: str) -> bytes:
    return pickle.GLOBAL + name.replace(" ", "\n").encode() + b"\n"


def _tuple(*members: bytes) -> bytes:
    return pickle.MARK + b"".join(members) + pickle.TUPLE


FASHION_MNIST = Dataset.from_catalog(
    "fashion-mnist-as-cifar10", sources=(Source(f"the Debian package {PACKAGE}", from_debian),)
)
CIFAR10 = Dataset.from_catalog(
    "cifar10",
    sources=(Source("its home page", from_archive, lambda: archive().is_file()),),
    stand_in=FASHION_MNIST,
    advice=f"To use CIFAR-10 itself, put {ARCHIVE} ({URL}) in the folder `datasets` in Slipway's "
    "cache ($XDG_CACHE_HOME/slipway or ~/.cache/slipway)",
)
