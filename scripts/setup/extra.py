"""What only some stacks need of Python: added to the environment when the first of them asks.

Readable by older Pythons and without packages, as `bootstrap` imports it.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from infra.paths import CHECKOUT, cache_dir
from scripts.setup.lock import alone

AZURE = "azure"
"""The extra with azure-native's SDK."""
AZURE_KINDS = ("aks", "azure-stack")
"""The kinds of cluster that need it."""
INSTALL_LIMIT = 600  # seconds


def lock_of(extra: str) -> Path:
    """The extra's requirements with their hashes."""
    return CHECKOUT / f"requirements-{extra}.lock"


def add(extra: str, venv: Path) -> None:
    """Installs the extra into an environment that is complete otherwise, unless it is there.

    Args:
        extra: As in pyproject.toml.
        venv: The environment.

    Raises:
        subprocess.SubprocessError: pip could not.
        TimeoutError: another set-up holds the lock.
    """
    lock = lock_of(extra)
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    done = venv / f".complete-{extra}-{digest}"
    if done.exists():
        return
    with alone(cache_dir() / "extra.lock"):
        if done.exists():
            return
        print(f"Python packages for {extra} (about 5 s, 155 MB)", file=sys.stderr, flush=True)
        started = time.monotonic()
        # What it needs in turn is in the environment's own lock file. Not compiled: hardly any of
        # its modules is ever imported.
        command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check", "--require-hashes", "--no-deps", "--no-compile"]
        command += ["--requirement", str(lock)]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)
        done.touch()
        print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
