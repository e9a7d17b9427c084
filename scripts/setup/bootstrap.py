"""Create the Python environments, which everything else needs, using only the system's Python.

Older Python versions must be able to parse this file, so that they can report what is missing.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from core.paths import CHECKOUT, cache_dir, extra_dir, venv_dir, venv_dir_for_tests

OLDEST = (3, 11)
AZURE = "azure"  # extra with the azure-native SDK; only Azure stacks and the tests need it
REPORT = "report"  # extra with the packages that `make report` draws with
_ESTIMATES = {AZURE: "5 s, 155 MB", REPORT: "5 s, 45 MB"}
INSTALL_LIMIT = 1200  # seconds; enough for a cold install over a slow connection
_LOCK_LIMIT = 2400  # seconds; more than a complete cold setup
# No package may run its own code during installation. `user` in pip's settings is no option here.
_LOCKED = ("--require-hashes", "--only-binary=:all:", "--no-user", "--requirement")


def problem() -> "str | None":
    """Return what this Python lacks and how to fix it, or None if this Python can be used."""
    if sys.version_info < OLDEST:
        return (
            "Python {}.{} or newer is required, but {} is {}.{}. Select another one: "
            "make PYTHON=python3.12 …".format(*OLDEST, sys.executable, *sys.version_info[:2])
        )
    if importlib.util.find_spec("ensurepip") is None:
        return (
            "Python's ensurepip module is missing. On Debian and Ubuntu: "
            "apt-get install python3-venv."
        )
    return None


def exclusive(file: Path) -> "AbstractContextManager[None]":
    """Lock out other setup runs, which would use the same directories; see `core.files.locked`."""
    from core import files  # noqa: PLC0415 - older Pythons can't parse it

    def announce(holder: str) -> None:
        print(f"Waiting for another setup to finish: {holder} …", file=sys.stderr, flush=True)

    return files.locked(file, limit=_LOCK_LIMIT, waiting=announce)


def install(venv: Path) -> None:
    """Create the runtime's Python environment with the packages in its lock file."""
    _run(sys.executable, "-m", "venv", venv)
    _pip(venv, "install", "--no-compile", *_LOCKED, CHECKOUT / "requirements.lock")
    # pip compiles on only one core. A module that can't be compiled is not an error.
    compiling = ("-m", "compileall", "-qq", "-j0", str(site_packages(venv)))
    subprocess.run([venv / "bin" / "python", *compiling], check=False, timeout=INSTALL_LIMIT)


def environment_for_tests(venv: Path) -> Path:
    """Create the environment for checks and tests, which also uses the packages in `venv`."""
    borrowed = (site_packages(venv), add_extra(AZURE, venv), add_extra(REPORT, venv))

    def fill(place: Path) -> None:
        _run(sys.executable, "-m", "venv", "--without-pip", place)
        # The packages' dependencies are in one of the two lock files; a unit test checks that.
        lock = CHECKOUT / "requirements-test.lock"
        _pip(venv, "--python", place, "install", "--no-deps", *_LOCKED, lock)
        lines = "".join(f"{directory}\n" for directory in borrowed)
        (site_packages(place) / "slipway.pth").write_text(lines)

    return _ensure(venv_dir_for_tests(), "Python packages for tests", "15 s, 150 MB", fill)


def add_extra(extra: str, venv: Path) -> Path:
    """Install an extra from pyproject.toml unless it is installed, and return its directory.

    The directory is separate from `venv`, since Pulumi starts a plugin for each package there.
    """

    def fill(place: Path) -> None:
        # The dependencies are in the environment's lock file. Few modules are ever imported.
        options = ("--no-deps", "--no-compile", "--target", place)
        _pip(venv, "install", *options, *_LOCKED, CHECKOUT / f"requirements-{extra}.lock")

    return _ensure(extra_dir(extra), f"Python packages for {extra}", _ESTIMATES[extra], fill)


def _ensure(place: Path, title: str, estimate: str, fill: "Callable[[Path], None]") -> Path:
    """Create a directory by calling `fill`, unless it is complete, and return it."""
    if _is_complete(place):
        return place
    with exclusive(cache_dir() / "python.lock"):
        if not _is_complete(place):
            print(f"{title} {place} (about {estimate})", file=sys.stderr, flush=True)
            started = time.monotonic()
            # A killed run may have left it incomplete.
            shutil.rmtree(place, ignore_errors=True)
            fill(place)
            os.sync()  # after a power loss, its files would otherwise be empty
            (place / ".complete").touch()
            print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return place


def _is_complete(place: Path) -> bool:
    """Return whether a directory is filled and, if it has a Python, the system's still exists."""
    python = place / "bin" / "python"
    return (place / ".complete").exists() and (python.exists() or not python.is_symlink())


def site_packages(venv: Path) -> Path:
    """Return the directory that contains an environment's packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))


def _pip(venv: Path, *arguments: "str | Path") -> None:
    _run(venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: "str | Path") -> None:
    # Output goes to stderr, since a shell evaluates stdout from `make env`.
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)


def link(venv: Path, name: str = ".venv") -> None:
    """Create a symbolic link in the checkout that points to a Python environment."""
    place = CHECKOUT / name
    if place.is_symlink() and place.readlink() == venv:
        return
    # Whether it exists can't be asked of a link into a directory that this user may not read.
    if not place.is_symlink() and place.exists():
        sys.exit(f"{place} exists but is not a symbolic link. Move it away, then try again.")
    try:
        place.unlink(missing_ok=True)
        place.symlink_to(venv)
    except OSError as error:
        sys.exit(f"{error}. Let this user write to {CHECKOUT}, then try again.")


def ready(*, tests: bool = False) -> Path:
    """Create and return the runtime's or the tests' environment, or exit with an error message."""
    # If the environment is complete, this Python can be used.
    missing = None if _is_complete(venv_dir()) else problem()
    if missing is not None:
        sys.exit(missing)
    try:
        venv = _ensure(venv_dir(), "Python environment", "30 s, 400 MB", install)
        return environment_for_tests(venv) if tests else venv
    except (subprocess.SubprocessError, OSError) as error:
        sys.exit(f"The Python environment could not be created: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def main() -> None:
    """Create and link the runtime's environment and, with `--tests`, the one for tests."""
    link(ready())
    if "--tests" in sys.argv:
        link(ready(tests=True), ".venv-test")


if __name__ == "__main__":
    main()
