"""CIFAR-10: 50,000 and 10,000 color pictures of 32 x 32 pixels in ten classes.

Its home is https://www.cs.toronto.edu/~kriz/cifar.html. torchvision, which reads its python
version, publishes the md5 of the files in its archive.
"""

from pathlib import Path

from core.context import Context
from images.datasets.dataset import Choice, Dataset
from images.datasets.fashion_mnist import FASHION_MNIST
from images.datasets.source import Source, download, kept, unpack

# torchvision.datasets.CIFAR10: url, train_list, test_list, meta.
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE = "cifar-10-python.tar.gz"
FILES = {
    "cifar-10-batches-py/data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "md5:40351d587109b95175f43aff81a1287e",
    "cifar-10-batches-py/batches.meta": "md5:5ff9c542aee3614f3951f8cda6e48888",
}
_MEMBERS = {name: name for name in FILES}
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def archive() -> Path:
    """Where the user puts the archive for machines that can't download it."""
    return kept() / ARCHIVE


def from_archive(directory: Path, _reporter: Context) -> None:
    """Take the files out of the archive that the user has put beside the data sets.

    Raises:
        NotAvailable: it isn't there, or is something else.
    """
    unpack(archive(), directory, _MEMBERS)


def from_home(directory: Path, reporter: Context) -> None:
    """Download the archive and take the files out of it.

    Raises:
        NotAvailable: it can't be downloaded, or is something else.
        InterruptedError: the user stopped the program.
    """
    fetched = directory / ARCHIVE
    download(URL, fetched, reporter)
    unpack(fetched, directory, _MEMBERS)
    fetched.unlink()


CIFAR10 = Choice(
    name="cifar10",
    alternatives=(
        Dataset(
            name="cifar10",
            classes=CLASSES,
            files=FILES,
            sources=(
                Source("the archive put there by hand", from_archive, lambda: archive().is_file()),
                Source("its home", from_home),
            ),
            size="170 MB",
        ),
        FASHION_MNIST,
    ),
    advice=f"For CIFAR-10 itself put {ARCHIVE} ({URL}) into the cache's folder datasets",
)
