"""Run Pulumi's CLI for a stack; read the stack's state and locks from files, which is faster."""

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
"""The option that hides progress dots; without a terminal, they would be lines between rows."""
INTERRUPTED = 128 + signal.SIGINT  # a shell's exit status after Ctrl-C


@dataclass(frozen=True)
class Cli:
    """Pulumi's CLI for one stack."""

    stack: str

    def run(self, *arguments: str, **variables: str) -> int:
        """Run a command in the user's terminal; return its exit status, `INTERRUPTED` on Ctrl-C."""
        # The terminal sends Ctrl-C to pulumi too: the first press cancels its current operations,
        # the second ends it immediately.
        pressed: list[int] = []
        process: subprocess.Popen[bytes] | None = None

        def interrupt(number: int, _frame: object) -> None:
            pressed.append(number)
            if number == signal.SIGTERM and process is not None:  # sent only to this process
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
        """Run a short command with `stdin` as its input, and return its output."""
        try:
            return run(*self._command(arguments), text=stdin, cwd=CHECKOUT, limit=120)
        except CommandFailed as error:
            if "incorrect passphrase" not in str(error):
                raise
            raise CommandError(
                f"Pulumi.{self.stack}.yaml, or the stack's state, is encrypted with a passphrase "
                f"other than {passphrase_file()}: the state directory was moved or lost, or the "
                "file comes from another machine. Do one of these:\n  set XDG_STATE_HOME to the "
                "directory that contains the right slipway/passphrase\n  or discard the secrets: "
                "delete the line `encryptionsalt` and the values under `secure` from the file, and "
                "set those values again with `pulumi config set --secret`"
            ) from error
        finally:
            guard.sweep()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        where = (*project.arguments(), "--stack", self.stack)
        return [*guard.command(toolchain.path("pulumi")), *arguments, *where]


def exists(stack: str) -> bool:
    """Return whether a stack exists, even if it is empty."""
    return state_file(stack).exists()


def exported(stack: str) -> dict[str, Any]:
    """Return what `pulumi stack export` prints, with encrypted secrets; {} if there is no stack."""
    file = state_file(stack)
    try:
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise CommandError(
            f"the state of {stack}, {file}, can't be read: {error}\n"
            f"Pulumi keeps the previous state in {file.name}.bak; copy it over the broken file."
        ) from error
    return {"deployment": (document.get("checkpoint") or {}).get("latest")}


def rows(export: Mapping[str, Any], kind: str) -> list[Any]:
    """Return `resources` or `pending_operations` from an exported state; [] if missing."""
    return (export.get("deployment") or {}).get(kind) or []


def name_of(resource: Mapping[str, Any]) -> str:
    """Return the name of a resource from an exported state."""
    return str(resource["urn"]).rsplit("::", 1)[-1]


def locks(stack: str) -> dict[Path, dict[str, Any]]:
    """Return the locks on a stack by file; several exist only if processes race to lock the stack.

    Each lock contains the `pid` and `hostname` of the process that holds it, and a `timestamp`.
    """
    result = {}
    for file in sorted(lock_directory(stack).glob("*.json")):
        with suppress(FileNotFoundError, ValueError):  # released, or empty after a power failure
            result[file] = json.loads(file.read_text())
    return result


def state_file(stack: str) -> Path:
    """Return the file that contains a stack's state."""
    return bookkeeping("stacks", project_name(), f"{stack}.json")


def lock_directory(stack: str) -> Path:
    """Return the directory in which Pulumi counts every file except `.attrs` as a stack's lock."""
    return bookkeeping("locks", "organization", project_name(), stack)


def files(stack: str) -> list[Path]:
    """Return all files that belong to a stack: its state, locks, history and backups."""
    state = state_file(stack)
    past = [bookkeeping(part, project_name(), stack) for part in ("backups", "history")]
    others = [file for kept in (lock_directory(stack), *past) for file in kept.rglob("*")]
    return sorted([*filter(Path.is_file, others), *state.parent.glob(f"{state.name}*")])


def bookkeeping(*parts: str) -> Path:
    """Return a path in the backend's `.pulumi` directory."""
    return backend().joinpath(".pulumi", *parts)
