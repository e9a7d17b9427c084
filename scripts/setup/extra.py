"""What only some stacks need of Python: packages in a directory of their own in the cache.

Apart from it, since Pulumi starts the plugin of every package that it finds in the environment.
Readable by older Pythons and without packages, as `bootstrap` imports it.
"""

import shutil
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from core import lock
from core.paths import CHECKOUT, cache_dir, extra_dir

AZURE = "azure"
"""The extra with azure-native's SDK."""
INSTALL_LIMIT = 600  # seconds
_LIMIT = 2400  # seconds: a whole cold set-up, and more


def alone(file: Path) -> AbstractContextManager[None]:
    """Keeps another set-up away, which would build into the same places; see `core.lock.held`."""

    def announce() -> None:
        print("Waiting for another set-up to end …", file=sys.stderr, flush=True)

    return lock.held(file, limit=_LIMIT, waiting=announce)


def lock_of(extra: str) -> Path:
    """The extra's requirements with their hashes."""
    return CHECKOUT / f"requirements-{extra}.lock"


def add(extra: str, venv: Path) -> Path:
    """Installs the extra unless it is there, and returns its directory.

    Args:
        extra: As in pyproject.toml.
        venv: The environment that it goes with, whose pip is used.

    Raises:
        subprocess.SubprocessError: pip could not.
        TimeoutError: another set-up holds the lock.
    """
    place = extra_dir(extra)
    if place.exists():
        return place
    with alone(cache_dir() / "python.lock"):
        if not place.exists():
            print(f"Python packages for {extra} (about 5 s, 155 MB)", file=sys.stderr, flush=True)
            started = time.monotonic()
            _install(extra, venv, place)
            print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return place


def _install(extra: str, venv: Path, place: Path) -> None:
    """Fills another directory, which is renamed once it is complete."""
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    # What it needs in turn is in the environment's own lock file. Not compiled: hardly any of
    # its modules is ever imported.
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command += ["--disable-pip-version-check", "--require-hashes", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:"]
    command += ["--target", str(partial), "--requirement", str(lock_of(extra))]
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)
    partial.rename(place)
