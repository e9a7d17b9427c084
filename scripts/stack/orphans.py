"""Ends what a killed CLI has left running.

Its plugins notice within moments, but Pulumi's language host looks for its engine only every five
minutes.
"""

import os
import signal
from pathlib import Path

_PROC = Path("/proc")
_LANGUAGE_HOST = "pulumi-language-python"


def end_orphans(checkout: Path) -> list[int]:
    """Ends the language hosts of `checkout` whose engine is gone, and returns their numbers.

    Where there is no /proc (macOS) they are left to end by themselves.
    """
    orphans = [
        int(process.name)
        for process in _PROC.glob("[0-9]*")
        if _program(process) == _LANGUAGE_HOST
        and _link(process / "cwd") == checkout
        and _program(_PROC / _parent(process)) != "pulumi"
    ]
    for pid in orphans:
        os.kill(pid, signal.SIGTERM)
    return orphans


def _program(process: Path) -> str:
    """The name of its executable; empty when it has ended, or is another user's."""
    link = _link(process / "exe")
    return "" if link is None else link.name.removesuffix(" (deleted)")


def _parent(process: Path) -> str:
    """The number of its parent; 0 when it has ended meanwhile."""
    try:
        # The name in brackets may hold blanks.
        return (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return "0"


def _link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None
