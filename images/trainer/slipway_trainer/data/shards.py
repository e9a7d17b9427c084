"""Read images in tar shards without unpacking them.

    DIRECTORY/*.tar    with CLASS/NAME.png, as in folders of images; or with NAME.png and its
                       class in NAME.cls, as https://github.com/webdataset/webdataset writes them

Images come in the order in which torchvision's ImageFolder would list them as files, however they
are distributed over the shards.
"""

import posixpath
import re
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_SHARD = re.compile(r"\.(tar(\.(gz|bz2|xz|zst))?|tgz)$")
_PICTURES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The same as torchvision.datasets.folder.IMG_EXTENSIONS."""


class Place(NamedTuple):
    """The location of an image's bytes in a shard."""

    file: str
    offset: int
    size: int

    def read(self) -> bytes:
        """Return the image's bytes; opens the file each time, so processes share no offset."""
        with Path(self.file).open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@cache
def samples(directory: Path) -> tuple[tuple[str, Place], ...]:
    """Return the class and location of each image in a directory's shards.

    Empty if there are no shards, or if there are class folders. Raises `ValueError` for shards that
    can't be used.
    """
    entries = sorted(directory.iterdir())
    files = [entry for entry in entries if _SHARD.search(entry.name)]
    if not files or any(entry.is_dir() for entry in entries):
        return ()
    pictures = [sample for file in files for sample in _listed(file)]
    if not pictures:
        raise ValueError(
            f"the tar files in {directory} contain no images ({', '.join(_PICTURES)}): write them "
            "with CLASS/NAME.png, or with NAME.png and its class in NAME.cls"
        )
    pictures.sort(key=lambda sample: (sample[0], *posixpath.split(sample[1])))
    return tuple((kind, place) for kind, _, place in pictures)


def _listed(shard: Path) -> Iterator[tuple[str, str, Place]]:
    """Yield the class, name and location of each image in a shard."""
    pictures: dict[str, Place] = {}
    classes: dict[str, str] = {}
    try:
        with shard.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                name = posixpath.normpath(member.name)
                stem, suffix = posixpath.splitext(name)
                if member.isdir() or suffix.lower() not in {*_PICTURES, ".cls"}:
                    continue
                if not member.isreg() or member.issparse() or name.startswith(("/", "../")):
                    raise ValueError(
                        f"{shard} contains {member.name}, which is not a regular file inside it: "
                        "write it with `tar --dereference --hard-dereference -C FOLDER`, without "
                        "links, a leading `/` or `..`"
                    )
                if suffix == ".cls":
                    file.seek(member.offset_data)
                    classes[stem] = file.read(member.size).decode(errors="replace").strip()
                else:
                    pictures[name] = Place(str(shard), member.offset_data, member.size)
            file.seek(archive.offset)
            if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
                # At a damaged header, tarfile stops as if at the end of the archive.
                raise tarfile.ReadError(f"damaged at byte {archive.offset}")
    except (tarfile.TarError, OSError) as error:
        raise ValueError(
            f"{shard} can't be read as a tar file: {error}. Images are read directly from it, so "
            "it must be complete and uncompressed: decompress it (`gunzip`), or write it again"
        ) from error
    for name, place in pictures.items():
        kind = classes.get(posixpath.splitext(name)[0], name.split("/")[0] if "/" in name else "")
        if not kind:
            raise ValueError(
                f"{shard} contains {name} without a class: write it as CLASS/{name}, or put the "
                f"class in {posixpath.splitext(name)[0]}.cls beside it"
            )
        yield kind, name, place
