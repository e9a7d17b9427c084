# The build puts it into a package.
"""Lets torchvision's CIFAR10 read a data set that stands in for CIFAR-10, and say so.

torchvision verifies CIFAR-10's files by checksums of its own. Slipway's image may hold other
pictures in the same format instead; a file `DATASET` beside them says which, and their checksums.
The image's build puts this module beside torchvision's own `cifar.py`, which then calls `allow`.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

REAL = "cifar10"
_announced: set[str] = set()


def allow(cifar10: type[Any]) -> None:
    """Make new objects of `cifar10` go by what the file `DATASET` in their root says.

    Without that file, or when it says that the pictures are the real ones, nothing changes, and
    neither does it for a class that only builds upon `cifar10`, such as CIFAR100.
    """
    construct = cifar10.__init__

    @functools.wraps(construct)
    def __init__(self: Any, root: str | Path, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if self.base_folder == cifar10.base_folder:
            _follow(self, Path(root).expanduser() / "DATASET")
        construct(self, root, *args, **kwargs)

    cifar10.__init__ = __init__


def _follow(dataset: Any, description: Path) -> None:
    if not description.is_file():
        return
    about = json.loads(description.read_text())
    if about["name"] == REAL:
        return
    sums = {Path(path).name: md5 for path, md5 in about["md5"].items()}
    dataset.train_list = [[name, sums[name]] for name, _ in dataset.train_list]
    dataset.test_list = [[name, sums[name]] for name, _ in dataset.test_list]
    dataset.meta = {**dataset.meta, "md5": sums[dataset.meta["filename"]]}
    if about["name"] not in _announced:
        _announced.add(about["name"])
        print(
            f"torchvision.datasets.CIFAR10: the pictures in {description.parent} are not CIFAR-10 "
            f"but {about['name']}, with the classes {', '.join(about['classes'])}.",
            file=sys.stderr,
        )
