"""`make logs` on a stack of the tests' own, in a process that a test can look at and interrupt."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.paths import CHECKOUT
from scripts.stack.log_target import NoLogs
from scripts.stack.logs import Options, show
from scripts.stack.state import StackState
from tests.engine.pytorchjob_stack import JobStack

_SECONDS = 60


@dataclass(frozen=True)
class Reading:
    """A reader at work."""

    process: "subprocess.Popen[str]"

    def line(self) -> str:
        """Wait for the next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def rest(self) -> tuple[list[str], str]:
        """Wait for its end, and return the lines that are left and what it said about them."""
        out, err = self.process.communicate(timeout=_SECONDS)
        assert self.process.returncode == 0, err
        return out.splitlines(), err

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)


@contextmanager
def reading(
    stack: JobStack, job: str, rank: int | None = None, *, follow: bool = True
) -> Iterator[Reading]:
    """Read a job's logs beside the test."""
    export = stack.directory / "export.json"
    export.touch(0o600)
    export.write_text(stack.pulumi("stack", "export", "--show-secrets").text)
    options = ["" if rank is None else str(rank), str(int(follow))]
    command = [sys.executable, "-m", "tests.engine.log_reader", str(export), job, *options]
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Reading(process)
        finally:
            process.kill()


def read(
    stack: JobStack, job: str, rank: int | None = None, *, follow: bool = True
) -> tuple[list[str], str]:
    """Return what `make logs` prints of a job: the lines, and what it says about them."""
    with reading(stack, job, rank, follow=follow) as reader:
        return reader.rest()


def main(export: str, job: str, rank: str, follow: str) -> int:
    """Print logs as the command does."""
    # Whatever started the tests may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = Options(int(rank) if rank else None, follow=follow == "1")
    try:
        return show(
            "test", job, options, lambda _: StackState.of(json.loads(Path(export).read_text()))
        )
    except NoLogs as nothing:
        sys.exit(str(nothing))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
