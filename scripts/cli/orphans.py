"""Ends what a killed CLI has left running.

Its plugins notice within moments, but Pulumi's language host looks for its engine only every five
minutes.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LANGUAGE_HOST = "pulumi-language-python"


def end_orphans(checkout: Path) -> list[int]:
    """Ends the language hosts of `checkout` whose engine is gone, and returns their numbers."""
    found = orphans(checkout)
    for pid in found:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGTERM)
    return found


def orphans(checkout: Path) -> list[int]:
    """The language hosts of `checkout` whose engine is gone, by number.

    Where there is no /proc (macOS) none is found; they end by themselves.
    """
    return [
        int(process.name)
        for process in _PROC.glob("[0-9]*")
        if _program(process) == _LANGUAGE_HOST
        and _link(process / "cwd") == checkout
        and _program(_PROC / _parent(process)) != "pulumi"
    ]


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
