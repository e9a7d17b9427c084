"""The first half of `make setup`, with nothing but a person's own Python: makes the environment.

Run as `python3 -m scripts.setup.bootstrap`. It makes the cached environment for requirements.lock,
links `.venv` to it, and hands over to `scripts.setup` inside it. It must be readable by older
Pythons too, so that they can say what is wrong with them.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OLDEST = (3, 11)
INSTALL_LIMIT = 1200  # seconds; a cold install over a slow line


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


def environment() -> Path:
    """Makes the environment of this lock file unless it is there, and returns its directory."""
    # These need a Python that `problems` has accepted.
    from infra.paths import cache_dir, venv_dir  # noqa: PLC0415
    from scripts.setup.lock import alone  # noqa: PLC0415

    venv = venv_dir()
    complete = venv / ".complete"
    if complete.exists():
        return venv
    with alone(cache_dir() / "setup.lock"):
        if not complete.exists():
            print(f"Python environment {venv} (about 40 s, 450 MB)", file=sys.stderr, flush=True)
            started = time.monotonic()
            install(venv)
            complete.touch()
            print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return venv


def install(venv: Path) -> None:
    """Fills the environment from the lock file; what a killed run left half-made goes first."""
    shutil.rmtree(venv, ignore_errors=True)
    venv.parent.mkdir(parents=True, exist_ok=True)
    python = str(venv / "bin" / "python")
    lock = str(CHECKOUT / "requirements.lock")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(venv)],
        [*pip, "--require-hashes", "--requirement", lock],
    ):
        # Output to stderr: `make env` may be what started this, and its stdout is evaluated.
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_LIMIT)


def link(venv: Path) -> None:
    """Points the checkout's `.venv` at the environment."""
    place = CHECKOUT / ".venv"
    if place.is_symlink() and place.readlink() == venv:
        return
    if place.exists() and not place.is_symlink():
        sys.exit(f"{place} is a directory and not Slipway's link. Move it away, then try again.")
    place.unlink(missing_ok=True)
    place.symlink_to(venv)


def main() -> None:
    """Ends with set-up's status. `--python-only` stops once the environment is there.

    `--every-extra` adds what only some stacks need, for the checks, which cover all of them.
    """
    missing = problems()
    if missing:
        sys.exit("\n".join(missing))
    from scripts.setup.extra import AZURE, add  # noqa: PLC0415

    arguments = [argument for argument in sys.argv[1:] if argument != "--every-extra"]
    try:
        venv = environment()
        if len(arguments) < len(sys.argv) - 1:
            add(AZURE, venv)
    except (subprocess.SubprocessError, TimeoutError) as error:
        sys.exit(f"The Python environment could not be made: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    link(venv)
    if "--python-only" in arguments:
        return
    python = str(venv / "bin" / "python")
    os.execv(python, [python, "-m", "scripts.setup", *arguments])  # noqa: S606 - same process


if __name__ == "__main__":
    main()
