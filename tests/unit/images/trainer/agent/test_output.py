"""What a program prints reaches the container's log as it comes, and not the launcher's memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from jobs.observe.progress import Progress

_OWN_BYTES = 30 * 2**20


# A process begins with the memory of the one that starts it, so that is a small one.
_MEASURED = """
import os, subprocess, sys
launcher = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(launcher.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
launcher.returncode = 0
"""


def _start(directory: Path, text: str) -> subprocess.Popen[bytes]:
    script = directory / "train.py"
    script.write_text(text)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT / "images/trainer")}
    launcher = [sys.executable, "-S", "-m", "slipway_trainer.launch", "--", str(script)]
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _MEASURED, *launcher],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("end", ["", "\r"])
def test_the_launcher_uses_under_30_mib_whatever_is_printed(tmp_path: Path, end: str) -> None:
    """300 MB, in a progress bar's states, or without any end of a line."""
    piece = ("w" * 999 + (end or "w")) * 50
    process = _start(
        tmp_path,
        f"import os\nfor _ in range(6_000): os.write(2, {piece!r}.encode())\n"
        "raise ValueError('label 11')\n",
    )
    size, last = 0, b""
    with process:
        assert process.stderr is not None
        assert process.stdout is not None
        while block := os.read(process.stderr.fileno(), 2**20):
            size, last = size + len(block), block[-2000:]
        code, kib = map(int, process.stdout.read().split())
    assert code == 1
    assert size >= 300_000_000
    assert last.endswith(b"ValueError: label 11\n")
    assert kib * 1024 < _OWN_BYTES, f"{kib} KiB"


@pytest.mark.parametrize("bar", ["\r{}/50", "{}/50\r"])
def test_a_progress_bar_is_in_the_log_while_it_grows(tmp_path: Path, bar: str) -> None:
    """A runtime logs a line when it has ended: so of a bar one state a second ends its line."""
    draw = f"os.write(2, {bar!r}.format(n).encode()); time.sleep(0.07)"
    process = _start(tmp_path, f"import os, time\nfor n in range(50): {draw}\ntime.sleep(3)")
    progress, seen, began = Progress(1), [], time.monotonic()
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            progress.see(line.decode().rstrip("\n"))
            seen.append((time.monotonic() - began, str(progress)))
        process.wait(60)
    assert len(seen) >= 3, seen
    at = next(at for at, row in seen if row == "last line: 49/50")
    assert at < 3.5 + 1 + 2, "the last state, though nothing follows it for 3 s"
