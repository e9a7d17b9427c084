"""Versions: which will do, and what a program on this machine says that it is."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_SECONDS = 20


def parts(version: str) -> tuple[int, ...]:
    """The version's numbers, to compare: `v1.34.4` is (1, 34, 4)."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


@dataclass(frozen=True)
class Range:
    """Versions from `minimum` on, up to but without `below`."""

    minimum: str
    below: str | None = None

    def __contains__(self, version: str) -> bool:
        if parts(version) < parts(self.minimum):
            return False
        return self.below is None or parts(version) < parts(self.below)

    def __str__(self) -> str:
        upper = "" if self.below is None else f", below {self.below}"
        return f"{self.minimum} or newer{upper}"


def ask(program: Path, arguments: tuple[str, ...]) -> str | None:
    """Runs a program for its version. None when it doesn't run, or names none.

    Its exit status doesn't count: some programs print their version and exit 1.
    """
    try:
        finished = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(finished.stdout + finished.stderr)
    return None if match is None else match[0]


def of_package(package: str) -> str | None:
    """The version of an installed Debian package, less Debian's own revision."""
    command = ("--showformat=${Version}", "--show", package)
    return ask(Path("/usr/bin/dpkg-query"), command)
