"""What set-up makes for Pulumi: its home, its backend, and the passphrase, once."""

import os
import secrets
import shutil
from pathlib import Path

from scripts.environment import backend, passphrase_file, pulumi_home


class PassphraseLost(Exception):
    """Stacks exist, but the passphrase that their secrets are encrypted with is gone."""


def prepare() -> None:
    """Create what is missing, readable by no other user. Never replace a passphrase.

    Raises:
        PassphraseLost: stacks exist whose passphrase has gone.
    """
    _decline_logs(pulumi_home() / "logs")
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


def _decline_logs(directory: Path) -> None:
    """Keep Pulumi from logging every command at its highest level.

    That is half of its CPU time and up to 500 MB, not all of it encrypted. Pulumi 3.250 has no
    setting for it, but continues without a log where it can't create the directory. What a user
    wants to look into is still shown by its own options, -v=9 --logtostderr.
    """
    if directory.is_dir():
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.touch()


def _write_once(file: Path, text: str) -> None:
    """Write beside it and then rename, so that the file never exists without its content."""
    partial = file.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text + "\n")
    partial.rename(file)
