"""What a program prints reaches the container's log as it comes, and not the launcher's memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs.observe.progress import Progress
from tests.unit.images.trainer.container import Container
from tests.unit.not_none import not_none

# A process begins with the memory of the one that starts it, so that is a small one.
_MEASURED = """
import os, subprocess, sys
launcher = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(launcher.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
launcher.returncode = 0
"""


def _start(directory: Path, text: str) -> tuple[subprocess.Popen[str], int]:
    """Start a script under the launcher; return the process and what reads its standard error."""
    script = directory / "train.py"
    script.write_text(text)
    launcher = [sys.executable, "-S", "-m", "slipway_trainer.launch", "--", str(script)]
    process = Container(directory).start("-S", "-c", _MEASURED, *launcher)
    return process, not_none(process.stderr).fileno()


@pytest.mark.parametrize("end", ["", "\r"], ids=["one line", "a progress bar"])
def test_the_launcher_uses_under_30_mib_for_300_mb_that_are_printed(
    tmp_path: Path, end: str
) -> None:
    piece = ("w" * 999 + (end or "w")) * 50
    prints = f"import os\nfor _ in range(6_000): os.write(2, {piece!r}.encode())\n"
    process, errors = _start(tmp_path, f"{prints}raise ValueError('label 11')\n")
    size, last = 0, b""
    with process:
        while block := os.read(errors, 2**20):
            size, last = size + len(block), block[-2000:]
        code, kib = map(int, not_none(process.stdout).read().split())
    assert code == 1
    assert size >= 300_000_000
    assert last.endswith(b"ValueError: label 11\n")
    assert kib < 30 * 1024


@pytest.mark.parametrize("bar", ["\r{}/50", "{}/50\r"])
def test_a_progress_bar_is_in_the_log_while_it_grows(tmp_path: Path, bar: str) -> None:
    """A runtime logs a line when it has ended: so of a bar one state a second ends its line."""
    draw = f"os.write(2, {bar!r}.format(n).encode()); time.sleep(0.07)"
    text = f"import os, time\nfor n in range(50): {draw}\ntime.sleep(3)"
    process, errors = _start(tmp_path, text)
    progress, seen, began = Progress(1), [], time.monotonic()
    with process, os.fdopen(errors, "rb", closefd=False) as lines:
        for line in lines:
            progress.see(line.decode().rstrip("\n"))
            seen.append((time.monotonic() - began, str(progress)))
    assert len(seen) >= 3, seen
    at = next(at for at, row in seen if row == "last line: 49/50")
    assert at < 3.5 + 1 + 2, "the last state, though nothing follows it for 3 s"
