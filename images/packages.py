"""Python packages that Debian lacks, for an image's Python, fetched on the building machine.

So the image needs no pip, and this machine's own configuration of pip says where they come from.
"""

import hashlib
import shutil
import sys
from pathlib import Path

from images.steps import Runner
from infra.paths import cache_dir

LOCK = "requirements.lock"
"""The file of a context that lists them: versions and hashes."""
LIMIT = 300.0


def install(lock: Path, target: Path, runner: Runner, python: str) -> None:
    """Put the packages of `lock` into `target`, as Python's `site-packages` has them.

    Only packages that run on any machine are taken: what is compiled comes from Debian.

    Args:
        lock: Versions and hashes of all of them: pip resolves nothing.
        target: A directory that isn't there yet.
        runner: Runs pip.
        python: The version of the image's Python.

    Raises:
        images.steps.BuildFailed: pip could not get one, or it is something else.
    """
    kept = cache_dir() / "packages" / hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    if not kept.is_dir():
        unfinished = kept.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        runner.run("fetching Python packages", _command(lock, unfinished, python), LIMIT)
        unfinished.rename(kept)
        for other in kept.parent.iterdir():
            if other != kept:
                shutil.rmtree(other)
    shutil.copytree(kept, target)


def _command(lock: Path, target: Path, python: str) -> tuple[str, ...]:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    exact = ("--no-deps", "--require-hashes", "--only-binary=:all:")
    image = (f"--python-version={python}", "--platform=any", "--abi=none", "--implementation=py")
    place = ("--target", str(target), "--no-compile", "--requirement", str(lock))
    return (*pip, "install", "--root-user-action=ignore", *exact, *image, *place)
