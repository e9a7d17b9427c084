"""Paths of Slipway's checkout, the user's project, caches, state and Python environments.

Imports only the standard library.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
"""The root of the checkout that contains this module."""
BACKEND_ID = "slipway-id"
"""The file with the ID of Slipway's own Pulumi backend, in that backend's directory."""


def project_dir() -> Path:
    """Return the folder that contains the stacks' files; paths in those files are relative to it.

    The folder is `$SLIPWAY_PROJECT`, or else the checkout.
    """
    return Path(os.environ.get("SLIPWAY_PROJECT") or CHECKOUT)


def project_name() -> str:
    """Return the Pulumi project's name: `slipway`, or one derived from the project's folder."""
    folder = project_dir().resolve()
    return "slipway" if folder == CHECKOUT else distinct(folder)


def distinct(path: Path) -> str:
    """Return a readable name for a path, of lower-case letters, digits and hyphens, with a hash."""
    readable = re.sub("[^a-z0-9]+", "-", path.name.lower()).strip("-")[:24].strip("-")
    return f"{readable or 'project'}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:6]}"


def of_project(stack: str) -> str:
    """Return a stack's name, prefixed with the project's name unless that is `slipway`.

    The result is unique among the user's projects, so two stacks named `dev` share no resources.
    """
    return stack if (name := project_name()) == "slipway" else f"{name}-{stack}"


def environment_dir() -> Path:
    """Return the runtime's virtual environment: the checkout's `.venv` link, or else `venv_dir`."""
    link = CHECKOUT / ".venv"
    return link if link.exists() else venv_dir()


def cache_dir() -> Path:
    """Return the folder for rebuildable files, `$XDG_CACHE_HOME/slipway` or `~/.cache/slipway`."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the folder for state, `$XDG_STATE_HOME/slipway` or `~/.local/state/slipway`."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def venv_dir() -> Path:
    """Return the runtime's virtual environment folder for this lock file and Python version."""
    return cache_dir() / f"venv-{_digest('requirements.lock')}"


def venv_dir_for_tests() -> Path:
    """Return the folder for the virtual environment of checks and tests, with all packages."""
    locks = (f"requirements-{part}.lock" for part in ("test", "azure", "report"))
    return cache_dir() / f"venv-test-{_digest(*locks, 'requirements.lock')}"


def extra_dir(extra: str) -> Path:
    """Return the folder for the packages in an extra, a dependency group in pyproject.toml."""
    return cache_dir() / f"python-{extra}-{_digest(f'requirements-{extra}.lock')}"


def use_extra(extra: str) -> None:
    """Add an extra's packages, if installed, to this process's import path."""
    place = str(extra_dir(extra))
    if place not in sys.path:
        sys.path.append(place)


def _digest(*locks: str) -> str:
    python = "{}.{}".format(*sys.version_info[:2])
    content = b"".join((CHECKOUT / lock).read_bytes() for lock in locks)
    return hashlib.sha256(content + python.encode()).hexdigest()[:12]


def _xdg(variable: str, default: str) -> Path:
    """Return Slipway's folder below `$variable`; XDG specifies that relative paths are ignored."""
    configured = Path(os.environ.get(variable, ""))
    return (configured if configured.is_absolute() else Path.home() / default) / "slipway"
