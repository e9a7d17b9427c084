"""Make torchvision's MNIST, FashionMNIST and CIFAR10 use the image's data, without downloading.

In the image, the last line of torchvision.datasets imports this module (see Dockerfile). If a data
set's files are missing, links to the image's files are created in its own directory or a temporary
one. CIFAR10 also accepts the image's replacement for CIFAR-10, which the result then names.
"""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from torchvision.datasets.cifar import CIFAR10
from torchvision.datasets.mnist import MNIST, FashionMNIST
from torchvision.datasets.utils import check_integrity

from slipway.termination import about

IMAGE = Path("/data")
_RAW = {"mnist/MNIST/raw": MNIST, "fashion-mnist/FashionMNIST/raw": FashionMNIST}
_exists, _intact = MNIST._check_exists, CIFAR10._check_integrity  # noqa: SLF001


def _check_exists(self: Any) -> bool:
    for folder, kind in _RAW.items():
        # A subclass keeps the same files under a different directory name.
        if self.resources == kind.resources and not _exists(self):
            _link(self, IMAGE / folder, lambda: self.raw_folder)
    return bool(_exists(self))


def _check_integrity(self: Any) -> bool:
    if _intact(self):
        return True
    images, sums = IMAGE / "cifar10" / CIFAR10.base_folder, about(IMAGE / "cifar10").get("md5")
    if self.base_folder != CIFAR10.base_folder or sums is None:
        return False
    _link(self, images, lambda: f"{self.root}/{self.base_folder}")
    if not all(check_integrity(Path(self.root, name), md5) for name, md5 in sums.items()):
        return False  # the directory contains other files

    def own(listed: list[list[str]]) -> list[list[str]]:
        return [[name, sums[f"{self.base_folder}/{name}"]] for name, _ in listed]

    self.train_list, self.test_list = own(self.train_list), own(self.test_list)
    ((_, meta_md5),) = own([[self.meta["filename"], ""]])
    self.meta = {**self.meta, "md5": meta_md5}
    return True


def _link(loader: Any, source: Path, folder: Callable[[], str]) -> None:
    """Create missing files in a loader's folder as links to `source`; safe with several ranks."""
    original = loader.root
    for root in (original, tempfile.gettempdir()):
        loader.root = root
        with suppress(OSError):
            place = Path(folder())
            place.mkdir(parents=True, exist_ok=True)
            for file in source.iterdir():
                if not (place / file.name).exists():
                    temporary = place / f".{uuid4()}"
                    temporary.symlink_to(file)
                    temporary.replace(place / file.name)
            return
    loader.root = original


MNIST._check_exists, CIFAR10._check_integrity = _check_exists, _check_integrity  # noqa: SLF001
