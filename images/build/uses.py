"""Record which resources use which images, so that the next build removes unused ones.

    images/uses/slipway-packages-0123456789ab/<a digest of the resource's URN>

Images without such a directory are kept. A use is recorded before the resource reads the archive.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core import files
from core.paths import cache_dir


def place(image: str) -> Path:
    """Return the directory that records an image's uses.

    `image` is the name of the image's archive without `.tar`.
    """
    return cache_dir() / "images" / "uses" / image


def note(images: Iterable[str], urn: str) -> list[str]:
    """Record that a resource uses these images, and return those that it used before."""
    with _held() as uses:
        before = [use.parent.name for use in uses.glob(f"*/{_digest(urn)}")]
        for image in images:
            (uses / image).mkdir(exist_ok=True)
            (uses / image / _digest(urn)).write_text(urn)
    return before


def drop(urn: str, but: Collection[str] = ()) -> None:
    """Record that a resource no longer uses any images other than those in `but`."""
    with _held() as uses:
        for use in uses.glob(f"*/{_digest(urn)}"):
            if use.parent.name not in but:
                use.unlink()


def remove_unused(but: str) -> list[str]:
    """Remove all unused images except `but` from the cache, and return their names."""
    with _held() as uses:
        unused = [each for each in uses.glob("*/") if each.name != but and not any(each.iterdir())]
        for each in unused:
            archive = uses.parent / f"{each.name}.tar"
            archive.unlink(missing_ok=True)
            files.remove(archive.with_suffix(".unpacked"), uses.parent / "removed")
            each.rmdir()
    return [each.name for each in unused]


@contextmanager
def _held() -> Iterator[Path]:
    with files.locked(place("lock"), limit=120.0, what="the record of image uses"):
        yield place("lock").parent


def _digest(urn: str) -> str:
    return hashlib.sha256(urn.encode()).hexdigest()[:16]
