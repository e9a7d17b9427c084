"""Where Slipway, its user's files and what it keeps are.

It imports nothing but the standard library.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
"""The root of the checkout that this module belongs to."""


def project_dir() -> Path:
    """Return the folder of the stacks' files, from which the paths in them lead.

    It is `$SLIPWAY_PROJECT`, or the checkout.
    """
    return Path(os.environ.get("SLIPWAY_PROJECT") or CHECKOUT)


def project_name() -> str:
    """Return what Pulumi calls the project: `slipway`, or a folder's own name and its digest."""
    folder = project_dir().resolve()
    if folder == CHECKOUT:
        return "slipway"
    readable = re.sub("[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:24].strip("-")
    digits = hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]
    return f"{readable or 'project'}-{digits}"


def of_project(stack: str) -> str:
    """Return a stack's name, in another project than `slipway` after that project's.

    It names what all projects of this user share, so that no two stacks `dev` meet in it.
    """
    name = project_name()
    return stack if name == "slipway" else f"{name}-{stack}"


def environment_dir() -> Path:
    """Return the runtime environment: by the checkout's link, which an installed package lacks."""
    link = CHECKOUT / ".venv"
    return link if link.exists() else venv_dir()


def cache_dir() -> Path:
    """For what can be made again: `$XDG_CACHE_HOME/slipway`, or `~/.cache/slipway`."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """For what can't, as clusters: `$XDG_STATE_HOME/slipway`, or `~/.local/state/slipway`."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def venv_dir() -> Path:
    """Return the runtime environment, which another lock file or Python makes another one."""
    return cache_dir() / f"venv-{_digest('requirements.lock')}"


def venv_dir_for_tests() -> Path:
    """Return the environment of the checks and tests, which refers to what lies in others."""
    locks = (f"requirements-{part}.lock" for part in ("test", "azure", "report"))
    return cache_dir() / f"venv-test-{_digest(*locks, 'requirements.lock')}"


def extra_dir(extra: str) -> Path:
    """Return the directory with the packages of an extra, a group in pyproject.toml."""
    return cache_dir() / f"python-{extra}-{_digest(f'requirements-{extra}.lock')}"


def use_extra(extra: str) -> None:
    """Let this process import the packages of an extra, if they are installed."""
    place = str(extra_dir(extra))
    if place not in sys.path:
        sys.path.append(place)


def _digest(*locks: str) -> str:
    python = "{}.{}".format(*sys.version_info[:2])
    content = b"".join((CHECKOUT / lock).read_bytes() for lock in locks)
    return hashlib.sha256(content + python.encode()).hexdigest()[:12]


def _xdg(variable: str, default: str) -> Path:
    """Return the directory of `variable`; a relative path is ignored, as XDG specifies."""
    given = Path(os.environ.get(variable, ""))
    return (given if given.is_absolute() else Path.home() / default) / "slipway"
