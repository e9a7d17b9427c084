"""The first half of `make setup`, with nothing but a person's own Python: makes the environment.

Run as `python3 -m scripts.setup.bootstrap`. It makes the cached environment for requirements.lock,
links `.venv` to it, and hands over to `scripts.setup` inside it. For the checks and tests it makes
another one, `.venv-test`, with what requirements-test.lock lists. It must be readable by older
Pythons too, so that they can say what is wrong with them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OLDEST = (3, 11)
INSTALL_LIMIT = 1200  # seconds; a cold install over a slow line
_LOCKED = ("--require-hashes", "--only-binary=:all:", "--requirement")
"""No package runs a program of its own to be installed."""


def problems() -> "list[str]":
    """What this Python lacks, each with what to do."""
    found = []
    if sys.version_info < OLDEST:
        found.append(
            "Python {}.{} or newer is needed, and {} is {}.{}. Name another one: "
            "make PYTHON=python3.12 …".format(*OLDEST, sys.executable, *sys.version_info[:2])
        )
    for module in ("venv", "ensurepip"):
        try:
            __import__(module)
        except ImportError:
            found.append(
                f"Python's module {module} is missing: on Debian and Ubuntu, "
                "apt-get install python3-venv."
            )
    return found


def complete() -> bool:
    """Whether this Python is new enough, and the runtime environment is there."""
    if sys.version_info < OLDEST:
        return False
    from core.paths import venv_dir  # noqa: PLC0415

    return (venv_dir() / ".complete").exists()


def environment() -> Path:
    """Makes the runtime environment unless it is there, and returns its directory."""
    # These need a Python that `problems` has accepted.
    from core.paths import venv_dir  # noqa: PLC0415

    return _made(venv_dir(), "Python environment", "30 s, 400 MB", install)


def environment_for_tests(venv: Path) -> Path:
    """The same for the environment of the checks and tests, which has the runtime's packages, too.

    Args:
        venv: The runtime environment.
    """
    from core.paths import venv_dir_for_tests  # noqa: PLC0415
    from scripts.setup.extra import AZURE, add  # noqa: PLC0415

    borrowed = (site_packages(venv), add(AZURE, venv))

    def fill(test_venv: Path) -> None:
        install_tests(test_venv, venv, borrowed)

    return _made(venv_dir_for_tests(), "Python packages for tests", "15 s, 150 MB", fill)


def _made(venv: Path, title: str, estimate: str, fill: "Callable[[Path], None]") -> Path:
    from core.paths import cache_dir  # noqa: PLC0415
    from scripts.setup.extra import alone  # noqa: PLC0415

    complete = venv / ".complete"
    if complete.exists():
        return venv
    with alone(cache_dir() / "python.lock"):
        if not complete.exists():
            print(f"{title} {venv} (about {estimate})", file=sys.stderr, flush=True)
            started = time.monotonic()
            # What a killed run left half-made goes first.
            shutil.rmtree(venv, ignore_errors=True)
            fill(venv)
            complete.touch()
            print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return venv


def install(venv: Path) -> None:
    """Fills the runtime environment from its lock file."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", venv)
    _pip(venv, "install", "--no-compile", *_LOCKED, CHECKOUT / "requirements.lock")
    # Instead of pip, which compiles on one core. A module that can't be compiled is no failure.
    compiling = ("-m", "compileall", "-qq", "-j0", str(site_packages(venv)))
    subprocess.run([venv / "bin" / "python", *compiling], check=False, timeout=INSTALL_LIMIT)


def install_tests(test_venv: Path, venv: Path, borrowed: "Sequence[Path]") -> None:
    """Installs what only tests need, and lets the environment see the directories `borrowed`.

    Args:
        test_venv: The environment to fill.
        venv: The runtime environment, whose pip is used.
        borrowed: What else is importable in it.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", test_venv)
    # What they need in turn is in one of the two lock files; a unit test looks.
    lock = CHECKOUT / "requirements-test.lock"
    _pip(venv, "--python", test_venv, "install", "--no-deps", *_LOCKED, lock)
    lines = "".join(f"{directory}\n" for directory in borrowed)
    (site_packages(test_venv) / "slipway.pth").write_text(lines)


def site_packages(venv: Path) -> Path:
    """Where an environment of this Python has its packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))


def _pip(venv: Path, *arguments: "str | Path") -> None:
    python = venv / "bin" / "python"
    _run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: "str | Path") -> None:
    # Output to stderr: `make env` may be what started this, and its stdout is evaluated.
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)


def link(venv: Path, name: str = ".venv") -> None:
    """Points the checkout's link of that name at the environment."""
    place = CHECKOUT / name
    if place.is_symlink() and place.readlink() == venv:
        return
    if place.exists() and not place.is_symlink():
        sys.exit(f"{place} is a directory and not Slipway's link. Move it away, then try again.")
    place.unlink(missing_ok=True)
    place.symlink_to(venv)


def main() -> None:
    """Ends with set-up's status. `--python-only` stops once the runtime environment is there.

    `--tests` makes the environment of the checks and tests as well.
    """
    if not complete():
        missing = problems()
        if missing:
            sys.exit("\n".join(missing))
    arguments = [argument for argument in sys.argv[1:] if argument != "--tests"]
    try:
        venv = environment()
        link(venv)
        if len(arguments) < len(sys.argv) - 1:
            link(environment_for_tests(venv), ".venv-test")
    except (subprocess.SubprocessError, TimeoutError) as error:
        sys.exit(f"The Python environment could not be made: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    if "--python-only" in arguments:
        return
    python = str(venv / "bin" / "python")
    os.execv(python, [python, "-m", "scripts.setup", *arguments])  # noqa: S606 - same process


if __name__ == "__main__":
    main()
