"""CIFAR-10: 50,000 and 10,000 color pictures of 32 x 32 pixels in ten classes.

Its home is https://www.cs.toronto.edu/~kriz/cifar.html. torchvision, which reads its python
version, publishes the md5 of the files in its archive.
"""

import shutil
import tarfile
from pathlib import Path

from images.build.runner import Reporter
from images.datasets.dataset import Choice, Dataset, NotAvailable, Source, kept
from images.datasets.download import download
from images.datasets.fashion_mnist import FASHION_MNIST

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
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def archive() -> Path:
    """Where the user puts the archive for machines that can't download it."""
    return kept() / ARCHIVE


def from_archive(directory: Path, _reporter: Reporter) -> None:
    """Take the files out of the archive that the user has put beside the data sets.

    Raises:
        NotAvailable: it isn't there, or is something else.
    """
    _unpack(archive(), directory)


def from_home(directory: Path, reporter: Reporter) -> None:
    """Download the archive and take the files out of it.

    Raises:
        NotAvailable: it can't be downloaded, or is something else.
        core.files.Cancelled: the user stopped the program.
    """
    fetched = directory / ARCHIVE
    download(URL, fetched, reporter)
    _unpack(fetched, directory)
    fetched.unlink()


def _unpack(packed: Path, directory: Path) -> None:
    try:
        with tarfile.open(packed) as tar:
            for name in FILES:
                member, target = tar.extractfile(name), directory / name
                if member is None:
                    raise NotAvailable(f"{packed} has no file {name}")
                target.parent.mkdir(parents=True, exist_ok=True)
                with member, target.open("wb") as file:
                    shutil.copyfileobj(member, file)
    except FileNotFoundError:
        raise NotAvailable(f"{packed} is missing") from None
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{packed} can't be unpacked: {error}") from error


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
