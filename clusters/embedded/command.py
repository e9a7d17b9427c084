"""Runs other programs: never through a shell, always with a limit, and silent unless they fail."""

import subprocess
from typing import IO


class CommandFailed(RuntimeError):
    """A program that ended with an error or ran too long; the text holds what it printed."""


def run(
    *command: str, text: str | None = None, stdin: IO[bytes] | None = None, limit: float = 30
) -> str:
    """Run a program and return what it printed.

    Args:
        command: The program and its arguments.
        text: What it reads on standard input.
        stdin: A file that it reads there instead.
        limit: Seconds until it is killed.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
    """
    shown = " ".join(command)
    source = {"input": text} if text is not None else {"stdin": stdin or subprocess.DEVNULL}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, **source
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s") from error
    except OSError as error:
        raise CommandFailed(f"`{shown}` can't be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or "it printed nothing"
        raise CommandFailed(f"`{shown}` failed with {done.returncode}: {said}")
    return done.stdout
