"""The files that an image is built from, and what stands for their content."""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

LEFT_OUT = frozenset({".git", "__pycache__"})
"""Change without a change of what they were made from."""


def files_of(directory: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield every file and every link below `directory`, in a fixed order.

    Args:
        directory: Which.
        without: Names of files right in it that are left out.
    """
    for name, folders, files in os.walk(directory):
        here = Path(name)
        links = [folder for folder in folders if (here / folder).is_symlink()]
        folders[:] = sorted(set(folders) - LEFT_OUT)
        skipped = without if here == directory else ()
        yield from (here / file for file in sorted([*files, *links]) if file not in skipped)


def digest_of(directory: Path, without: Collection[str] = ()) -> bytes:
    """Return 32 bytes that stand for each file's place, content, and whether it can be run."""
    digest = hashlib.sha256()
    for path in files_of(directory, without):
        digest.update(f"{path.relative_to(directory)}\0".encode())
        if path.is_symlink():
            # It is copied as a link; what it leads to counts where that lies.
            digest.update(f"link\0{path.readlink()}\0".encode())
            continue
        if not path.is_file():
            # A pipe or a socket: it has no content, and reading a pipe would wait for a writer.
            continue
        digest.update(b"x" if path.stat().st_mode & 0o100 else b"-")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()
