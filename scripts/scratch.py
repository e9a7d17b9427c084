"""A copy of this checkout in which commands can't affect the user's own stacks.

Configuration, state, passphrase and clusters are separate; the cache (tools, images) is shared.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.paths import CHECKOUT

# Variables not to pass on: the user's shell may select a stack, and `make` exports its flags.
_OF_THE_CALLER = ("PULUMI_", "MAKE", "MFLAGS", "PYTEST_", "SLIPWAY_", "KUBECONFIG", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Finished:
    """A command that has finished, with its standard output and standard error."""

    command: str
    code: int
    output: str
    errors: str
    seconds: float

    @property
    def text(self) -> str:
        """Standard output followed by standard error."""
        return self.output + self.errors

    def __str__(self) -> str:
        ended = f"`{self.command}` exited with {self.code} after {self.seconds:.1f} s"
        return f"{ended}; its output:\n{self.text}"


class Scratch:
    """A copy of a checkout and a state directory, both in one temporary directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name.replace("_", "0")  # a name for its cluster, unlike any other
        self.checkout, self.state_home = directory / "checkout", directory / "state"
        # From the last command.
        self.output, self.errors = directory / "output", directory / "errors"

    @classmethod
    def copy_of(cls, source: Path) -> Self:
        """Copy the files in `source` that git does not ignore, and commit them in the copy."""
        # Keep the path short: Unix socket paths below it are limited to 107 characters.
        parent = os.environ.get("TMPDIR") or "/var/tmp"  # noqa: S108 - on a disk, as /tmp may not be
        scratch = cls(Path(tempfile.mkdtemp(prefix="slw-", dir=parent)))
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        # With this commit, `git status` shows later changes.
        script = """
            git init --quiet && git add --all
            git config user.name scratch && git config user.email scratch@localhost
            git commit --quiet --no-gpg-sign --message 'A copy to try things in'
        """
        try:
            scratch.state_home.mkdir()
            listed = subprocess.check_output(listing, cwd=source, text=True)
            for name in set(listed.split("\0")) - {""}:
                file, target = source / name, scratch.checkout / name
                # git also lists tracked files that the user has deleted.
                if file.is_symlink() or file.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file, target, follow_symlinks=False)
            subprocess.run(["bash", "-e", "-c", script], cwd=scratch.checkout, check=True)
        except BaseException:
            scratch.remove()
            raise
        return scratch

    def environment(self) -> dict[str, str]:
        """Return this process's environment without references to the caller's checkout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_OF_THE_CALLER)}
        path = (each for each in os.get_exec_path() if not Path(each).is_relative_to(CHECKOUT))
        return kept | {"PATH": os.pathsep.join(path), "XDG_STATE_HOME": str(self.state_home)}

    def start(self, command: str, *, show: bool = False) -> subprocess.Popen[bytes]:
        """Start `command` with bash in the copy, in a new session; `show` prints its output."""
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            return subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.checkout,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=None if show else output,
                stderr=None if show else errors,
                start_new_session=True,
            )

    def run(self, command: str, limit_seconds: float, *, show: bool = False) -> Finished:
        """Run `command` until it exits, even if it fails; raise `TimeoutError` at the limit."""
        began = time.monotonic()
        process = self.start(command, show=show)
        try:
            code = process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"`{command}` ran longer than {limit_seconds:.0f} s and was stopped; its output:\n"
                f"{_text(self.output)}{_text(self.errors)}"
            ) from None
        finally:
            end(process)
        seconds = time.monotonic() - began
        return Finished(command, code, _text(self.output), _text(self.errors), seconds)

    def remove(self) -> None:
        """Delete the copy and its state."""
        shutil.rmtree(self.directory)


def end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGINT to `process` and its children, and SIGKILL if they still run 30 s later."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text(log: Path) -> str:
    return log.read_text(errors="replace")
