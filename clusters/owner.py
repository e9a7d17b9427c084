"""Record which stack owns a cluster on this machine, in a file written before its creation.

A cluster that a tool created also contains a creation token. A cluster with the same name but no
token, or a different one, was created by something else and is never changed.
"""

import re
import secrets
from pathlib import Path

from core import files

NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""The pattern for a cluster's name: a DNS label, so it can't be a path."""
NOTE = "owner"
"""The file that records the stack's name."""
_TOKEN = "token"  # noqa: S105 - a file's name


def stack_of(directory: Path) -> str | None:
    """Return the stack that created the cluster, or None if there is no valid owner file."""
    return _read(directory / NOTE, re.compile(r"[^/\s\0]+/[^/\s\0]+"))


def require(directory: Path, stack: str | None) -> None:
    """Raise `RuntimeError` if the owner file names a stack other than `stack`."""
    other = stack_of(directory)
    if other is not None and stack is not None and other != stack:
        raise RuntimeError(
            f"cluster {directory.name} belongs to the stack {other}, not to {stack}: set "
            f"slipway:cluster.name to a different name, or take {other} down first. If the stack "
            f"{other} no longer exists, run: rm {directory / NOTE}"
        )


def claim(directory: Path, stack: str) -> None:
    """Write the owner file, before the cluster is created. Raises the same errors as `require`."""
    require(directory, stack)
    files.private_directory(directory)
    files.write(directory / NOTE, stack, mode=0o600)


def new_token(directory: Path) -> str:
    """Save and return a random token for a cluster that is about to be created."""
    token = secrets.token_hex(16)
    files.write(directory / _TOKEN, token, mode=0o600)
    return token


def token_of(directory: Path) -> str | None:
    """Return the token from the last creation, or None for a cluster that predates tokens."""
    return _read(directory / _TOKEN, re.compile("[0-9a-f]{32}"))


def _read(file: Path, form: re.Pattern[str]) -> str | None:
    try:
        text = file.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    return text if form.fullmatch(text) else None
