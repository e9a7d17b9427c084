"""Ownership of clusters on this machine: a file with the stack's name, written before creation.

A tool's cluster also contains a token of its creation. A cluster of the same name without it, or
with another token, was created by another program and is never changed.
"""

import re
import secrets
from pathlib import Path

from core import files

NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""The pattern of a cluster's name: a DNS label, so that it can't be a path."""
NOTE = "owner"
"""The name of the file with the stack's name."""
_TOKEN = "token"  # noqa: S105 - a file's name


def stack_of(directory: Path) -> str | None:
    """Return the stack that created the cluster; None without a valid note."""
    return _read(directory / NOTE, re.compile(r"[^/\s\0]+/[^/\s\0]+"))


def require(directory: Path, stack: str | None) -> None:
    """Raise `RuntimeError` if a note names another stack."""
    other = stack_of(directory)
    if other is not None and stack is not None and other != stack:
        raise RuntimeError(
            f"cluster {directory.name} belongs to the stack {other}, not to {stack}: give "
            f"slipway:cluster.name another name, or take {other} down first. If there is no stack "
            f"{other}: rm {directory / NOTE}"
        )


def claim(directory: Path, stack: str) -> None:
    """Write the note of a cluster's stack before the cluster is created. Raises as `require`."""
    require(directory, stack)
    files.private_directory(directory)
    files.write(directory / NOTE, stack, mode=0o600)


def new_token(directory: Path) -> str:
    """Return a random token for a creation that starts now, after writing it to its file."""
    token = secrets.token_hex(16)
    files.write(directory / _TOKEN, token, mode=0o600)
    return token


def token_of(directory: Path) -> str | None:
    """Return the token of the last creation; None for a cluster older than tokens."""
    return _read(directory / _TOKEN, re.compile("[0-9a-f]{32}"))


def _read(file: Path, form: re.Pattern[str]) -> str | None:
    try:
        text = file.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    return text if form.fullmatch(text) else None
