"""CIFAR-10: 50,000 and 10,000 color pictures of 32 x 32 pixels in ten classes.

Its home is https://www.cs.toronto.edu/~kriz/cifar.html. torchvision, which reads its python
version, publishes the md5 of the files in its archive.
"""

from pathlib import Path

from core.context import Context
from images.datasets.dataset import Dataset, Source, download, kept, unpack
from images.datasets.fashion_mnist import FASHION_MNIST

# torchvision.datasets.CIFAR10: url; train_list, test_list and meta have the checksums.
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE = "cifar-10-python.tar.gz"


def archive() -> Path:
    """Where the user puts the archive for machines that can't download it."""
    return kept() / ARCHIVE


def from_archive(directory: Path, reporter: Context) -> None:
    """Take the files out of the archive: that of the user, or else a download."""
    packed = archive()
    if not packed.is_file():
        packed = directory / ARCHIVE
        download(URL, packed, reporter)
    unpack(packed, directory, {name: name for name in CIFAR10.files})
    (directory / ARCHIVE).unlink(missing_ok=True)


CIFAR10 = Dataset.from_catalog(
    "cifar10",
    sources=(Source("its home", from_archive, lambda: archive().is_file()),),
    stand_in=FASHION_MNIST,
    advice=f"For CIFAR-10 itself put {ARCHIVE} ({URL}) into the cache's folder datasets",
)
