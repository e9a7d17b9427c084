"""Data sets as folders of images: PNG or JPEG files, with one folder per class.

    DIRECTORY/train/CLASS/*.png    training images; or `training`
    DIRECTORY/test/CLASS/*.png     test images; or `testing`, `val`, `validation`
    DIRECTORY/DATASET              {"name": …} for results; by default the directory's name

Both folders may contain tar shards instead of class folders (`shards`). torchvision's ImageFolder
lists the images. torch's DataLoader processes decode them while the model trains: images are
transferred as bytes, then normalized on the model's device.
"""

import json
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from torchvision.transforms import v2

from slipway.termination import about
from slipway_trainer.data import shards
from slipway_trainer.data.datasets import CIFAR10, Data

_FOLDERS = {True: ("train", "training"), False: ("test", "testing", "val", "validation")}
# Mean and deviation of the ImageNet images, as torchvision's networks expect:
# https://docs.pytorch.org/vision/0.21/models.html
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Pictures(Data):
    """The training or test images in a directory, for training on one device.

    Args:
        directory: A directory as described for this module, or one that contains only such a
            directory.
        train: True for training images, False for test images.
        limit: The maximum number of images, taken evenly from all classes.
        size: Pixels per side: the shorter side is resized to this, then the center is cropped.
        device: The device for batches.

    Raises:
        ValueError: A folder is missing, its classes differ from those of the training images, or
            a shard can't be read.
    """

    def __init__(
        self, directory: Path, *, train: bool, limit: int | None, size: int, device: torch.device
    ) -> None:
        directory = _inner(directory)
        to_size = [v2.Resize(size), v2.CenterCrop(size), v2.PILToTensor()]
        files = _Files(str(_folder(directory, train)), v2.Compose(to_size), loader=_loaded)
        classes, _ = files.find_classes(str(_folder(directory, train=True)))
        if files.classes != classes:
            raise ValueError(
                f"{files.root} has the classes {', '.join(files.classes)}, but the training "
                f"images have {', '.join(classes)}: both must have the same class folders"
            )
        if limit is not None and limit < len(files):
            # They are listed class by class.
            chosen = torch.arange(limit) * len(files) // limit
            files.samples = [files.samples[index] for index in chosen.tolist()]
        self.name = str(about(directory).get("name", directory.name))
        self.classes = tuple(classes)
        self.size, self.device = size, device
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return images (n, 3, size, size) as bytes, and labels (n,), even if n is 0."""
        samples = [self._files[index] for index in indices.tolist()]
        images = [image for image, _ in samples]
        empty = torch.empty(0, 3, self.size, self.size, dtype=torch.uint8)
        labels = torch.tensor([label for _, label in samples], dtype=torch.int64)
        return torch.stack(images) if images else empty, labels

    def placed(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch on the device, normalized, in channels_last format."""
        images = images.to(self.device, non_blocking=True).float().div_(255)
        images = v2.functional.normalize(images, _MEAN, _DEVIATION, inplace=True)
        images = images.contiguous(memory_format=torch.channels_last)
        return images, labels.to(self.device, non_blocking=True)


class _Files(ImageFolder):  # type: ignore[misc]  # only the image has torchvision
    """An ImageFolder that also lists images in tar shards."""

    def find_classes(self, directory: str) -> Any:
        classes = sorted({name for name, _ in shards.samples(Path(directory))})
        if not classes:
            return super().find_classes(directory)
        return classes, {name: index for index, name in enumerate(classes)}

    def make_dataset(self, directory: str, class_to_idx: dict[str, int], **how: Any) -> Any:
        if places := shards.samples(Path(directory)):
            return [(place, class_to_idx[name]) for name, place in places]
        return super().make_dataset(directory, class_to_idx, **how)


def _loaded(place: str | shards.Place) -> Any:
    """Return the image in a file, or at a location in a shard, as RGB."""
    if isinstance(place, str):
        return default_loader(place)
    try:
        return Image.open(BytesIO(place.read())).convert("RGB")
    except OSError as error:
        raise ValueError(
            f"the image at byte {place.offset} in {place.file} can't be read: {error}"
        ) from error


def write_cifar10_images(cifar10: Path = Path("/data/cifar10")) -> Path:
    """Write 6,000 training and 1,000 test images of CIFAR-10 as PNG files to a new directory.

    Returns the directory, which `Pictures` can read.
    """
    directory = Path(tempfile.mkdtemp(prefix="pictures-"))
    for train, count in {True: 6000, False: 1000}.items():
        dataset: Any = CIFAR10(cifar10, train=train)
        folders = [
            directory / _FOLDERS[train][0] / name.replace("/", "-") for name in dataset.classes
        ]
        for folder in folders:
            folder.mkdir(parents=True)
        for number, label in enumerate(dataset.targets[:count]):
            picture = v2.functional.to_pil_image(dataset.data[number])
            picture.save(folders[label] / f"{number:05}.png", compress_level=1)
        (directory / "DATASET").write_text(json.dumps({"name": dataset.name}))
    return directory


def _inner(directory: Path) -> Path:
    """Return the only folder in `directory`, as in unpacked archives, or else `directory`."""
    within = [path for path in directory.iterdir() if path.is_dir()]
    expected = {name for names in _FOLDERS.values() for name in names}
    return within[0] if len(within) == 1 and within[0].name not in expected else directory


def _folder(directory: Path, train: bool) -> Path:
    for name in _FOLDERS[train]:
        if (directory / name).is_dir():
            return directory / name
    raise ValueError(
        f"{directory} contains none of the folders {', '.join(_FOLDERS[train])}. One is needed, "
        "with a folder of PNG or JPEG files for each class, or with tar shards of such folders: "
        "use --data to pass the directory that contains it"
    )
