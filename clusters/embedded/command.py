"""Runs other programs: never through a shell, always with a limit, and silent unless they fail."""

import subprocess


class CommandFailed(RuntimeError):
    """A program that ended with an error or ran too long; the text holds what it printed."""


def run(*command: str, text: str = "", limit: float = 30) -> str:
    """Run a program and return what it printed.

    Args:
        command: The program and its arguments.
        text: What it reads on standard input.
        limit: Seconds until it is killed.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
    """
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s") from error
    except OSError as error:
        raise CommandFailed(f"`{shown}` can't be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or "it printed nothing"
        raise CommandFailed(f"`{shown}` failed with {done.returncode}: {said}")
    return done.stdout
