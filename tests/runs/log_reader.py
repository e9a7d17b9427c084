"""What `make results` and `make logs` print, that in this process or in one to interrupt.

And what logs there are to be shown.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from core.paths import CHECKOUT
from jobs.records import archive
from jobs.records.archive import Log
from scripts.cli.runs.logs import show
from scripts.cli.runs.results import outcomes, print_results
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.pytorchjob_stack import Jobs

Export = Mapping[str, Any]
"""What `pulumi stack export --show-secrets` prints."""


def kept(job: str) -> dict[int, list[str]]:
    """Return what is in the archive of each replica, with times."""
    found: dict[int, list[str]] = {}
    for run in archive.of_job("test", job).runs():
        for log in sorted(run.logs(), key=_first_stamp):
            found.setdefault(log.replica, []).extend(map(str, log.lines()))
    return found


def _first_stamp(log: Log) -> str:
    return next((line.stamp for line in log.lines()), "")


def printed(jobs: Jobs, job: str) -> list[list[str]]:
    """Return what kubectl shows of a job's ranks 0 and 1, with times."""
    pods = (f"{job}-master-0", f"{job}-worker-0")
    return [jobs.kubectl("logs", "--timestamps", pod).splitlines() for pod in pods]


def texts(lines: list[str]) -> list[str]:
    return [line.partition(" ")[2] for line in lines]


def reading_state(state: StackState) -> AbstractContextManager[object]:
    """Give the command this state instead of that in Pulumi's backend."""
    return mock.patch("scripts.cli.runs.logs.read_state", return_value=state)


def read(
    export: Export, job: str, rank: int | None = None, *, follow: bool = True
) -> tuple[list[str], str]:
    """Return what `make logs` prints of a job: the lines, and what it says about them.

    Raises:
        CommandError: there are none.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), reading_state(StackState.from_export(export)):
        show("test", job, rank, "1" if follow else "0")
    return out.getvalue().splitlines(), err.getvalue()


def results(export: Export, *, is_busy: bool = False) -> str:
    """Return what `make results` prints."""
    lock = {"pid": 1, "hostname": "elsewhere", "timestamp": ""}
    held = {Path("lock"): lock} if is_busy else {}
    with mock.patch("scripts.cli.runs.results.locks", return_value=held):
        found = outcomes("test", StackState.from_export(export), ())
    with redirect_stdout(io.StringIO()) as out:
        print_results("test", found, {}, "", "text")
    return out.getvalue()


@dataclass
class Reading:
    """A reader at work, with files as output: what is read of a pipe by lines is read ahead."""

    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path

    def first(self) -> str:
        await_true(lambda: "\n" in self.out.read_text(), otherwise=self.err.read_text)
        return self.out.read_text().splitlines()[0]

    def all(self) -> tuple[list[str], str]:
        """Wait for its end, and return all its lines and what it said about them."""
        code = self.process.wait(COMMAND_SECONDS)
        assert code == 0, self.err.read_text()
        return self.out.read_text().splitlines(), self.err.read_text()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@contextmanager
def reading(
    export: Export, job: str, rank: int | None = None, *, follow: bool = True
) -> Iterator[Reading]:
    """Read a job's logs beside the test."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        state, out, err = (directory / each for each in ("export.json", "out", "err"))
        state.write_text(json.dumps(export))
        options = ["" if rank is None else str(rank), str(int(follow))]
        command = [sys.executable, "-m", "tests.runs.log_reader", str(state), job, *options]
        with (
            out.open("wb") as stdout,
            err.open("wb") as stderr,
            subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=os.environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            ) as process,
        ):
            try:
                yield Reading(process, out, err)
            finally:
                process.kill()


def main(export: str, job: str, rank: str, follow: str) -> int:
    # Whatever started the tests may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    state = StackState.from_export(json.loads(Path(export).read_text()))
    number = int(rank) if rank else None
    try:
        with reading_state(state):
            show("test", job, number, follow)
    except CommandError as nothing:
        sys.exit(str(nothing))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
