"""Files that are complete or absent, with their mode from the first byte."""

import os
import tempfile
from pathlib import Path


def private_directory(path: Path) -> None:
    """Make a directory that only its owner may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write(path: Path, text: str, *, mode: int) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old one or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            # A certificate beside another one's key would stop a cluster from starting.
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
