"""Pulumi on one stack: its CLI, and its state and locks from files, as the CLI takes a second."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import toolchain
from core.paths import CHECKOUT, project_name
from core.process import CommandFailed, run
from scripts import guard
from scripts.cli import project
from scripts.cli.terminal import CommandError
from scripts.environment import backend, passphrase_file

QUIET = "--suppress-progress"
"""Without a terminal, Pulumi's dots would be a line of their own between any two rows."""
INTERRUPTED = 128 + signal.SIGINT  # A shell's exit status for a command that Ctrl-C has ended


@dataclass(frozen=True)
class Cli:
    """The CLI, bound to a stack."""

    stack: str

    def run(self, *arguments: str, **variables: str) -> int:
        """Run a command that talks to the user; return its status, `INTERRUPTED` for Ctrl-C."""
        # The terminal sends Ctrl-C to pulumi, too, which ends in good order: the first time it
        # cancels what it is at, the second time it ends immediately.
        pressed: list[int] = []
        process: subprocess.Popen[bytes] | None = None

        def interrupt(number: int, _frame: object) -> None:
            pressed.append(number)
            if number == signal.SIGTERM and process is not None:  # sent to this process alone
                process.send_signal(signal.SIGINT)

        before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            command, env = self._command(arguments), {**os.environ, **variables}
            process = subprocess.Popen(command, cwd=CHECKOUT, env=env)
            code = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            guard.sweep()
        return INTERRUPTED if pressed and code != 0 else code

    def query(self, *arguments: str, stdin: str = "") -> str:
        """Runs a short command, which reads `stdin`, and returns what it prints."""
        try:
            return run(*self._command(arguments), text=stdin, cwd=CHECKOUT, limit=120)
        except CommandFailed as error:
            if "incorrect passphrase" not in str(error):
                raise
            raise CommandError(
                f"Pulumi.{self.stack}.yaml, or the stack's state, is encrypted with another "
                f"passphrase than {passphrase_file()}: the state directory was moved or lost, or "
                "the file comes from another machine. There are two ways on:\n  let "
                "XDG_STATE_HOME name the directory that has its slipway/passphrase\n  or go on "
                "without it: delete the line `encryptionsalt` and what is under `secure` from the "
                "file, and set those values again with `pulumi config set --secret`"
            ) from error
        finally:
            guard.sweep()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        where = (*project.arguments(), "--stack", self.stack)
        return [*guard.command(toolchain.path("pulumi")), *arguments, *where]


def exists(stack: str) -> bool:
    """Whether a stack exists, empty or not."""
    return state_file(stack).exists()


def exported(stack: str) -> dict[str, Any]:
    """What `pulumi stack export` prints, with encrypted secrets; empty without a stack."""
    file = state_file(stack)
    try:
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise CommandError(
            f"the state of {stack}, {file}, can't be read: {error}\n"
            f"Pulumi keeps the state before it in {file.name}.bak; copy that over it."
        ) from error
    return {"deployment": (document.get("checkpoint") or {}).get("latest")}


def rows(export: Mapping[str, Any], kind: str) -> list[Any]:
    """The `resources` or `pending_operations` of an exported state, which may lack empty ones."""
    return (export.get("deployment") or {}).get(kind) or []


def name_of(resource: Mapping[str, Any]) -> str:
    """The name of a resource in an exported state."""
    return str(resource["urn"]).rsplit("::", 1)[-1]


def locks(stack: str) -> dict[Path, dict[str, Any]]:
    """The locks on a stack, by their files; more than one only while processes race for it.

    Each has the `pid` of the process that holds it, its `hostname`, and the `timestamp`.
    """
    found = {}
    for file in sorted(lock_directory(stack).glob("*.json")):
        with suppress(FileNotFoundError):  # its holder has released it meanwhile
            found[file] = json.loads(file.read_text())
    return found


def state_file(stack: str) -> Path:
    """Where a stack's state is."""
    return bookkeeping("stacks", project_name(), f"{stack}.json")


def lock_directory(stack: str) -> Path:
    """Where a stack's locks are; Pulumi takes every file in it for one but `.attrs`."""
    return bookkeeping("locks", "organization", project_name(), stack)


def files(stack: str) -> list[Path]:
    """Every file that is kept for a stack: its state, locks, history and backups."""
    state = state_file(stack)
    past = [bookkeeping(part, project_name(), stack) for part in ("backups", "history")]
    found = [file for kept in (lock_directory(stack), *past) for file in kept.rglob("*")]
    return sorted([*filter(Path.is_file, found), *state.parent.glob(f"{state.name}*")])


def bookkeeping(*parts: str) -> Path:
    """A path in Pulumi's own directory of the backend."""
    return backend().joinpath(".pulumi", *parts)
