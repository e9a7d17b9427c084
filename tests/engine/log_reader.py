"""`make logs` on a stack of the tests' own, in a process that a test can look at and interrupt."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.paths import CHECKOUT
from scripts.stack.log.command import show
from scripts.stack.log.target import NoLogs
from scripts.stack.log.view import Options
from scripts.stack.state import StackState
from tests.engine.awaiting import await_true
from tests.engine.pytorchjob_stack import JobStack

_SECONDS = 60


@dataclass
class Reading:
    """A reader at work.

    Args:
        process: It, whose output goes to files: what is read of a pipe by lines is read ahead.
        out: What it prints.
        err: What it says about that.
    """

    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path

    def first(self) -> str:
        """Wait for its first line."""
        await_true(lambda: "\n" in self.out.read_text())
        return self.out.read_text().splitlines()[0]

    def all(self) -> tuple[list[str], str]:
        """Wait for its end, and return all its lines and what it said about them."""
        code, out, err = self.end()
        assert code == 0, err
        return out.splitlines(), err

    def end(self) -> tuple[int, str, str]:
        """Wait for its end, whatever its exit status, and return that and what it said."""
        code = self.process.wait(_SECONDS)
        return code, self.out.read_text(), self.err.read_text()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)


@contextmanager
def reading(
    stack: JobStack, job: str, rank: int | None = None, *, follow: bool = True
) -> Iterator[Reading]:
    """Read a job's logs beside the test."""
    with tempfile.TemporaryDirectory(dir=stack.directory) as name:
        directory = Path(name)
        export, out, err = (directory / each for each in ("export.json", "out", "err"))
        export.write_text(stack.pulumi("stack", "export", "--show-secrets").text)
        options = ["" if rank is None else str(rank), str(int(follow))]
        command = [sys.executable, "-m", "tests.engine.log_reader", str(export), job, *options]
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


def read(
    stack: JobStack, job: str, rank: int | None = None, *, follow: bool = True
) -> tuple[list[str], str]:
    """Return what `make logs` prints of a job: the lines, and what it says about them."""
    with reading(stack, job, rank, follow=follow) as reader:
        return reader.all()


def main(export: str, job: str, rank: str, follow: str) -> int:
    """Print logs as the command does."""
    # Whatever started the tests may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = Options(int(rank) if rank else None, follow=follow == "1")
    state = StackState.of(json.loads(Path(export).read_text()))
    try:
        return show("test", job, options, lambda _stack, **_options: state)
    except NoLogs as nothing:
        sys.exit(str(nothing))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
