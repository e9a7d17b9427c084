"""Where a server that a test has started listens, as its log says."""

import re
import subprocess
import time
from pathlib import Path

import pytest

_LIMIT_SECONDS = 30


def address(process: subprocess.Popen[bytes], log: Path, said: str, *, name: str) -> str:
    """Return what `said`, a pattern with one group, finds in `log`, or fail with its end.

    Args:
        process: The server.
        log: What it writes.
        said: What it writes once it listens.
        name: What it is called.
    """
    until = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        found = re.search(said, log.read_text())
        if found is not None:
            return found.group(1)
        time.sleep(0.1)
    pytest.fail(f"{name} did not start: {log.read_text()[-2000:]}", pytrace=False)
