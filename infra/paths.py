"""Where Slipway keeps things outside the checkout. Imports nothing but the standard library.

Two roots, by the XDG base directory specification, told apart by what losing them costs:

* `cache_dir` holds what can be made again: programs, the Python environment, images, data sets.
* `state_dir` holds what can't: the Pulumi backend, the passphrase, the clusters.
"""

import hashlib
import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
"""The root of the checkout that this module belongs to."""


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/slipway`, or `~/.cache/slipway`. Not created here."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """`$XDG_STATE_HOME/slipway`, or `~/.local/state/slipway`. Not created here."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def venv_dir(lock: Path = CHECKOUT / "requirements.lock") -> Path:
    """The Python environment for this lock file and this Python: a change of either means another.

    Args:
        lock: the requirements with their hashes.

    Raises:
        FileNotFoundError: there is no lock file.
    """
    python = "{}.{}".format(*sys.version_info[:2])
    digest = hashlib.sha256(lock.read_bytes() + python.encode()).hexdigest()
    return cache_dir() / f"venv-{digest[:12]}"


def _xdg(variable: str, default: str) -> Path:
    """The specification says that a relative path in the variable is invalid: it is ignored."""
    given = Path(os.environ.get(variable, ""))
    return (given if given.is_absolute() else Path.home() / default) / "slipway"
