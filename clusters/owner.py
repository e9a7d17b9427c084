"""Which stack a cluster on this machine belongs to: a note that is left before it is made.

A tool's cluster has a token of its creation in it besides: what another program has made under the
same name has none, or another one, and is never touched.
"""

import re
import secrets
from pathlib import Path

from core import files

NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""What a cluster may be called: a DNS label, so never a path out of its directory."""
NOTE = "owner"
"""The file that names the stack."""
_TOKEN = "token"  # noqa: S105 - a file's name


def stack_of(directory: Path) -> str | None:
    """Return the stack that made the cluster; None without a note, or with half a note."""
    return _read(directory / NOTE, re.compile(r"[^/\s\0]+/[^/\s\0]+"))


def require(directory: Path, stack: str | None) -> None:
    """Raise `RuntimeError` where a note names another stack."""
    found = stack_of(directory)
    if found is not None and stack is not None and found != stack:
        raise RuntimeError(
            f"cluster {directory.name} belongs to the stack {found}, not to {stack}: give "
            f"slipway:cluster.name another name, or take {found} down first. If no stack is called "
            f"{found}: rm {directory / NOTE}"
        )


def claim(directory: Path, stack: str) -> None:
    """Note that a cluster is a stack's, before anything is made of it; raises as `require`."""
    require(directory, stack)
    files.private_directory(directory)
    files.write(directory / NOTE, stack, mode=0o600)


def new_token(directory: Path) -> str:
    """Return the random token of a creation that begins now, after noting it."""
    token = secrets.token_hex(16)
    files.write(directory / _TOKEN, token, mode=0o600)
    return token


def token_of(directory: Path) -> str | None:
    """Return the token of the last creation; None of a cluster from before there were tokens."""
    return _read(directory / _TOKEN, re.compile("[0-9a-f]{32}"))


def _read(file: Path, form: re.Pattern[str]) -> str | None:
    try:
        text = file.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    return text if form.fullmatch(text) else None
