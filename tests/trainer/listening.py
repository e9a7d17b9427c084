"""Servers that tests start on this machine's loopback, and the packages that they need."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.paths import cache_dir

_START_SECONDS, _INSTALL_SECONDS = 120, 300


@contextmanager
def started(
    command: Sequence[str], directory: Path, said: str, env: Mapping[str, str]
) -> Iterator[str]:
    """Run a server in `directory`; yield its address, or fail with the end of its log.

    `said` is a pattern with one group, the address, of what it writes once it listens; `env` has
    variables besides the test's own.
    """
    log = directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=directory, env={**os.environ, **env},
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until = time.monotonic() + _START_SECONDS
        while (found := re.search(said, log.read_text())) is None:
            if time.monotonic() > until or process.poll() is not None:
                text = f"{command[0]} did not start: {log.read_text()[-2000:]}"
                pytest.fail(text, pytrace=False)
            time.sleep(0.1)
        yield found.group(1)
    finally:
        process.kill()
        process.wait(timeout=10)


def installed(package: str, *command: str) -> Path:
    """Return the directory with a package, into which a command installs it unless it is cached."""
    directory = cache_dir() / "test-tools" / package
    done = directory / "complete"
    if done.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    words = (*(each.format(directory) for each in command), package)
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        pytest.fail(f"{error}; this test needs {command[0]}, install it", pytrace=False)
    if ended.returncode != 0:
        pytest.fail(f"`{' '.join(words)}` failed: {ended.stderr[-2000:]}", pytrace=False)
    done.touch()
    return directory
