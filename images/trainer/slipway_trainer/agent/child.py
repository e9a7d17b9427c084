"""Run the launcher's child process: forward signals and output, and wait until it exits."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO

from slipway.drill import target
from slipway.events import own_rank
from slipway_trainer.agent.inside import processes
from slipway_trainer.agent.printed import METRICS, Lines, Search
from slipway_trainer.agent.processes import LAST_BYTES

_BAR_SECONDS = 1.0
"""Interval after which a newline ends a progress bar, as container logs show only whole lines."""
_SCRATCH, _ORPHAN_SECONDS = "SLIPWAY_MESSAGE_DIR", 25.0  # within jobs/model/places.py's 30 s
received: set[int] = set()
DEBUG = "SLIPWAY_DEBUG"
"""The environment variable with the rank that waits for a debugger: `make debug` forwards a port
to that rank's debugpy."""
_DEBUGPY = ["-m", "debugpy", "--listen", "127.0.0.1:5678", "--wait-for-client"]


def wait_for(command: Sequence[str], scratch: Path) -> tuple[int, str, int]:
    """Run a command, which writes its termination message to `scratch`, and forward signals to it.

    If METRICS is set, rank 0's output is searched for metrics. Returns the exit code as a shell
    would, the tail of standard error, and the process ID.
    """
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _frame: object) -> None:
        received.add(number)
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    environment = {**os.environ, _SCRATCH: str(scratch)}
    sought = json.loads(os.environ.get(METRICS, "{}"))
    # Both streams share a pipe, so that their lines keep their order, as in a container's log.
    out, err = (subprocess.PIPE, subprocess.STDOUT) if sought else (None, subprocess.PIPE)
    child = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
    target[:] = [child.pid]
    for missed in early:
        child.send_signal(missed)
    search, last = Search(sought), bytearray()
    sink = Lines(sys.stdout.buffer, search.lines.put) if sought else sys.stderr.buffer
    source = child.stdout or child.stderr
    passed_on = threading.Thread(target=_pass_on, args=(source, sink, last), daemon=True)
    passed_on.start()

    def end() -> None:
        # No time limit here: the job's deadline applies.
        child.wait()
        if signal.SIGTERM in received:
            _end_orphans(scratch)
        # A process that the program left behind may keep standard error open.
        passed_on.join(1.0)

    search.until(end) if sought else end()
    code, text = child.wait(), bytes(last).decode(errors="replace")
    if code == 0 and signal.SIGTERM in received:
        code = -signal.SIGTERM  # it stopped early, and a success would lose its checkpoints
    return code if code >= 0 else 128 - code, text, child.pid


def _end_orphans(scratch: Path) -> None:
    """Send SIGTERM to processes that outlive the command that started them, and wait for them.

    Shells and launchers such as `accelerate launch` exit on SIGTERM without passing it on.
    """
    signaled, deadline = set[int](), time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < deadline:
        every = [each for each in processes() if each.environment.get(_SCRATCH) == str(scratch)]
        # Not DataLoader workers, which their parents end, nor `make shell`, whose parent is 0.
        others = {0, *(each.pid for each in every)}
        orphans = {each.pid for each in every if each.parent not in others}
        if not orphans:
            return
        for pid in orphans - signaled:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        signaled |= orphans
        time.sleep(0.1)


def _pass_on(source: IO[bytes], sink: IO[bytes] | Lines, last: bytearray) -> None:
    """Copy output to `sink` as it arrives, and keep its tail in `last`.

    A newline is added to a progress bar's line once a second.
    """
    is_bar, ended = False, time.monotonic()
    while True:
        left = max(0.0, ended + _BAR_SECONDS - time.monotonic())
        if select.select([source], [], [], left if is_bar else None)[0]:
            piece = os.read(source.fileno(), LAST_BYTES)
            sink.write(piece)
            if not piece:
                return
            last += piece
            del last[:-LAST_BYTES]
            _, newline, line = piece.rpartition(b"\n")
            ended = time.monotonic() if newline else ended
            is_bar = b"\r" in line or (is_bar and not newline)
        if is_bar and time.monotonic() - ended >= _BAR_SECONDS:
            sink.write(b"\n")
            is_bar, ended = False, time.monotonic()
        sink.flush()


if __name__ == "__main__":  # run per rank if `DEBUG` is set; exec replaces it with the program
    command = [sys.executable, *sys.argv[1:]]
    if str(own_rank()) == os.environ[DEBUG]:
        import_module("debugpy")  # its error names the package for `requirements`
        command[1:1] = ["-Xfrozen_modules=off", *_DEBUGPY]
    os.execv(sys.executable, command)  # noqa: S606 - that is its purpose
