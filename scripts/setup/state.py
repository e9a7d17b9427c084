"""What set-up makes in the state directory: the Pulumi backend, and the passphrase, once."""

import os
import secrets
from pathlib import Path

from scripts.environment import backend, passphrase_file


class PassphraseLost(Exception):
    """There are stacks, but no longer the passphrase that their secrets are encrypted with."""


def prepare() -> None:
    """Makes what is missing, readable by nobody else. Never replaces a passphrase.

    Raises:
        PassphraseLost: stacks exist whose passphrase has gone.
    """
    backend().mkdir(parents=True, exist_ok=True, mode=0o700)
    file = passphrase_file()
    if file.exists():
        file.chmod(0o600)
        return
    stacks = sorted((backend() / ".pulumi" / "stacks").rglob("*.json"))
    if stacks:
        names = ", ".join(stack.stem for stack in stacks)
        raise PassphraseLost(
            f"{file} has gone, and the secrets of these stacks are encrypted with it: {names}. "
            f"Put it back, or give them up: end their clusters and delete {backend()}."
        )
    _write_once(file, secrets.token_urlsafe(32))


def _write_once(file: Path, text: str) -> None:
    """Writes beside it and then renames, so that the file is never there without its content."""
    partial = file.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text + "\n")
    partial.rename(file)
