"""The Python environments, which all else needs, made with nothing but the system's Python.

Older Pythons have to be able to read this file, so that they can print what they lack.
"""

import importlib.util
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
AZURE = "azure"  # the extra with azure-native's SDK: only stacks on Azure and the tests need it
REPORT = "report"  # the extra with what `make report` draws by
_ESTIMATES = {AZURE: "5 s, 155 MB", REPORT: "5 s, 45 MB"}
INSTALL_LIMIT = 1200  # seconds; a cold install over a slow line
_LOCK_LIMIT = 2400  # seconds: more than a complete cold set-up
# No package runs a program of its own to be installed.
_LOCKED = ("--require-hashes", "--only-binary=:all:", "--requirement")


def problem() -> "str | None":
    """Return what this Python lacks, with what to do."""
    if sys.version_info < OLDEST:
        return (
            "Python {}.{} or newer is needed, and {} is {}.{}. Name another one: "
            "make PYTHON=python3.12 …".format(*OLDEST, sys.executable, *sys.version_info[:2])
        )
    if importlib.util.find_spec("ensurepip") is None:
        return (
            "Python's module ensurepip is missing: on Debian and Ubuntu, "
            "apt-get install python3-venv."
        )
    return None


def exclusive(file: Path) -> "AbstractContextManager[None]":
    """Keep other set-ups away, which would build into the same places; see `core.files.locked`."""
    from core import files  # noqa: PLC0415 - older Pythons can't read it

    def announce(holder: str) -> None:
        print(f"Waiting for another set-up to end: {holder} …", file=sys.stderr, flush=True)

    return files.locked(file, limit=_LOCK_LIMIT, waiting=announce)


def environment() -> Path:
    """Make the runtime environment unless it is complete, and return its directory."""
    return _ensure(venv_dir(), "Python environment", "30 s, 400 MB", install)


def install(venv: Path) -> None:
    """Fill the runtime environment from its lock file."""
    _run(sys.executable, "-m", "venv", venv)
    _pip(venv, "install", "--no-compile", *_LOCKED, CHECKOUT / "requirements.lock")
    # Instead of pip, which compiles on one core. A module that can't be compiled is no failure.
    compiling = ("-m", "compileall", "-qq", "-j0", str(site_packages(venv)))
    subprocess.run([venv / "bin" / "python", *compiling], check=False, timeout=INSTALL_LIMIT)


def environment_for_tests(venv: Path) -> Path:
    """Make the environment of the checks and tests, which sees the runtime's packages, too."""
    borrowed = (site_packages(venv), add_extra(AZURE, venv), add_extra(REPORT, venv))

    def fill(place: Path) -> None:
        _run(sys.executable, "-m", "venv", "--without-pip", place)
        # What they need in turn is in one of the two lock files; a unit test looks.
        lock = CHECKOUT / "requirements-test.lock"
        _pip(venv, "--python", place, "install", "--no-deps", *_LOCKED, lock)
        lines = "".join(f"{directory}\n" for directory in borrowed)
        (site_packages(place) / "slipway.pth").write_text(lines)

    return _ensure(venv_dir_for_tests(), "Python packages for tests", "15 s, 150 MB", fill)


def add_extra(extra: str, venv: Path) -> Path:
    """Install an extra of pyproject.toml unless it is installed, and return its directory.

    Not into `venv`, since Pulumi starts the plugin of every package there.
    """

    def fill(place: Path) -> None:
        # What it needs in turn is in the environment's own lock file. Hardly any is ever imported.
        options = ("--no-deps", "--no-compile", "--target", place)
        _pip(venv, "install", *options, *_LOCKED, CHECKOUT / f"requirements-{extra}.lock")

    return _ensure(extra_dir(extra), f"Python packages for {extra}", _ESTIMATES[extra], fill)


def _ensure(place: Path, title: str, estimate: str, fill: "Callable[[Path], None]") -> Path:
    """Have `fill` make a directory unless it is complete, and return it."""
    complete = place / ".complete"
    if complete.exists():
        return place
    with exclusive(cache_dir() / "python.lock"):
        if not complete.exists():
            print(f"{title} {place} (about {estimate})", file=sys.stderr, flush=True)
            started = time.monotonic()
            # What a killed run left incomplete goes first.
            shutil.rmtree(place, ignore_errors=True)
            fill(place)
            complete.touch()
            print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return place


def site_packages(venv: Path) -> Path:
    """Return where an environment of this Python has its packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))


def _pip(venv: Path, *arguments: "str | Path") -> None:
    _run(venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: "str | Path") -> None:
    # Output to stderr: `make env` may be what started this, and its stdout is evaluated.
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)


def link(venv: Path, name: str = ".venv") -> None:
    """Point the checkout's link of that name at the environment."""
    place = CHECKOUT / name
    if place.is_symlink() and place.readlink() == venv:
        return
    if place.exists() and not place.is_symlink():
        sys.exit(f"{place} is a directory and not Slipway's link. Move it away, then try again.")
    place.unlink(missing_ok=True)
    place.symlink_to(venv)


def ready(*, tests: bool = False) -> Path:
    """Return the runtime environment, or the tests', or exit with why it could not be made."""
    # A complete environment shows that nothing was missing.
    missing = None if (venv_dir() / ".complete").exists() else problem()
    if missing is not None:
        sys.exit(missing)
    try:
        venv = environment()
        return environment_for_tests(venv) if tests else venv
    except (subprocess.SubprocessError, OSError) as error:
        sys.exit(f"The Python environment could not be made: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def main() -> None:
    """Make the environment, with `--tests` also that of the tests, and the links to them."""
    link(ready())
    if "--tests" in sys.argv:
        link(ready(tests=True), ".venv-test")


if __name__ == "__main__":
    main()
