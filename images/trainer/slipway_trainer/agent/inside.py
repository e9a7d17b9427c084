"""Inspect a pod's program from outside: `make stacks` and `make shell` exec this in the pod.

    python3 -m slipway_trainer.inside stacks
    python3 -m slipway_trainer.inside shell 1

On the signal SHOW_STACK, every Python process in this image writes its stack traces to an anonymous
file and continues (`sitecustomize.py`), even if it is running C code, such as a collective. The
signal is not sent to other processes.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SHOW_STACK = signal.SIGRTMIN + 7
_FILE = "/memfd:slipway-stacks"
_ANSWER_SECONDS, _PAUSE_SECONDS = 2.0, 0.05
_AGENTS = ("slipway_trainer.launch", "slipway_trainer.inside", "slipway_trainer.agent.")


@dataclass(frozen=True)
class Process:
    """A process that belongs to this pod's program."""

    pid: int
    words: list[str]  # its command line
    environment: dict[str, str]  # as it was started
    parent: int = 0

    def __str__(self) -> str:
        rank = f"rank {self.environment['RANK']}, " if "RANK" in self.environment else ""
        return f"{rank}process {self.pid}: {' '.join(self.words):.100}"

    def stack(self) -> str | None:
        """Return the stack traces of the process's threads, innermost frame first.

        Returns None if the process does not handle `SHOW_STACK`. Raises `TimeoutError` if it does
        not respond within 2 s.
        """
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it has closed this file
                if str(link.readlink()).startswith(_FILE) and self._awaits(SHOW_STACK):
                    return self._written(link)
        return None

    def _awaits(self, number: int) -> bool:
        """Return whether the process handles a signal that would otherwise terminate it."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        caught = next(each for each in status.splitlines() if each.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)

    def _written(self, file: Path) -> str:
        text, deadline = "", time.monotonic() + _ANSWER_SECONDS
        with file.open() as written:
            written.seek(0, os.SEEK_END)
            os.kill(self.pid, SHOW_STACK)
            while time.monotonic() < deadline:
                text, before = text + written.read(), text
                if text and text == before:
                    return text
                time.sleep(_PAUSE_SECONDS)
        raise TimeoutError(
            f"no response in {_ANSWER_SECONDS:g} s: the process is stopped, or blocked in a driver"
        )


def processes() -> Iterator[Process]:
    """Yield the processes of this pod's program, oldest first, excluding the launcher's."""
    for pid in sorted(int(each.name) for each in Path("/proc").glob("[0-9]*")):
        with suppress(OSError):  # it has ended, or belongs to another user
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
            pairs = Path(f"/proc/{pid}/environ").read_text(errors="surrogateescape").split("\0")
            _, _, after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
            is_agent = any(word.startswith(_AGENTS) for word in words[:3])
            if words and not is_agent:
                variables = (pair.partition("=")[::2] for pair in pairs if "=" in pair)
                yield Process(pid, words, dict(variables), parent=int(after_name.split()[1]))


def show() -> None:
    """Print all processes' stack traces; exit with code 1 if there are none."""
    shown = 0
    for each in processes():
        try:
            stack = each.stack()
        except TimeoutError as error:
            stack = str(error)
        except OSError:  # it has ended since
            continue
        if stack is not None:
            shown += 1
            print(each, *(f"  {line}" for line in stack.splitlines()), sep="\n")
    if not shown:
        sys.exit("the program has ended, or is not running a Python process from Slipway's image")


def shell(rank: str) -> NoReturn:
    """Replace this process with a shell in a rank's directory and environment."""
    every = [*processes()]
    same = [each for each in every if each.environment.get("RANK") == rank]
    variables = dict(os.environ)
    for first in (same or every)[:1]:
        variables |= first.environment | {"TERM": os.environ.get("TERM", "xterm")}
        os.chdir(os.readlink(f"/proc/{first.pid}/cwd"))  # noqa: PTH115 - like os.chdir
    program = shutil.which("bash") or "/bin/sh"
    os.execve(program, [program], variables)  # noqa: S606 - that is its purpose


if __name__ == "__main__":
    if sys.argv[1] == "shell":
        shell(sys.argv[2])
    show()
