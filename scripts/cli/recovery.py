"""Clears what an interrupted Pulumi left behind, so that the next command just works.

A killed CLI leaves its lock, which names host and process, and the operations that it had begun.
The lock is broken only when that process is surely gone. The operations are dropped from the state
by exporting and importing it, which needs no cluster to answer: every resource of this project
adopts what an interrupted create has created.
"""

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core import files
from core.paths import CHECKOUT, state_dir
from scripts.cli import CommandError, echo
from scripts.cli.backend import (
    Lock,
    bookkeeping,
    exported,
    lock_directory,
    locks,
    rows,
    state_file,
)
from scripts.cli.pulumi_cli import Cli

_WRITING_SECONDS = 2.0
"""Writing one of these files takes less: what is half-written after this was abandoned."""
_PROC = Path("/proc")
_LANGUAGE_HOST = "pulumi-language-python"


class StackBusy(CommandError):
    """Another process is using the stack, or may be."""


@contextmanager
def alone(stack: str) -> Iterator[None]:
    """Keeps other commands of these away from a stack, from looking at it to the end.

    Raises:
        StackBusy: one is at work on it.
    """
    file = state_dir() / "locks" / f"{quote(stack, safe='')}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(files.locked(file, limit=0))
        except TimeoutError as error:
            raise StackBusy(
                f"Another `make` command is using stack {stack}. Wait for its end, or stop it."
            ) from error
        yield


def recover(cli: Cli) -> None:
    """Makes a stack ready for the next command; one that does not exist yet is.

    Raises:
        StackBusy: its lock is held by a live process, or by another machine.
    """
    repair_files(cli.stack)
    found = locks(cli.stack)
    for each in found:
        require_stale(each, cli.stack)
    if found:
        echo(f"Removed the lock on stack {cli.stack}, left by a pulumi process that was killed.")
    for each in found:
        # `pulumi cancel` would also remove one that another command has taken meanwhile.
        each.file.unlink(missing_ok=True)
        each.file.with_name(f"{each.file.name}.attrs").unlink(missing_ok=True)
    end_orphans(CHECKOUT)  # a preview that was killed leaves no lock
    pending = pending_operations(exported(cli.stack))
    if pending:
        echo(
            "An earlier run was interrupted while "
            + ", ".join(pending)
            + "; continuing from there."
        )
        cli.query("stack", "import", stdin=cli.query("stack", "export"))


def require_stale(lock: Lock, stack: str) -> None:
    """Raises `StackBusy` unless the lock's holder ran on this machine and is gone."""
    if lock.hostname != socket.gethostname():
        raise StackBusy(
            f"Stack {stack} is locked by process {lock.pid} on {lock.hostname} since "
            f"{lock.timestamp}. If that has ended: pulumi cancel --stack {stack}"
        )
    if _is_pulumi(lock.pid):
        raise StackBusy(
            f"Stack {stack} is in use by pulumi, process {lock.pid}, since {lock.timestamp}. "
            "Wait for its end, or stop that process."
        )


def pending_operations(deployment: Any) -> list[str]:
    """What was begun and not ended, as "creating NAME", from an exported state."""
    operations = rows(deployment, "pending_operations")
    return [
        f"{operation['type']} {operation['resource']['urn'].rsplit('::', 1)[-1]}"
        for operation in operations
    ]


def repair_files(stack: str) -> list[Path]:
    """Remove a stack's half-written files, and return which those were.

    Pulumi writes a file X as `X.TIME.tmp`, then X's attributes as `X.attrs`, and then renames the
    first to X (gocloud.dev/blob/fileblob). So a killed process never leaves half a state, but

    * a `.tmp` among a stack's locks, which Pulumi takes for one more lock and can't read;
    * an empty `X.attrs`, with which it can't read X.

    A machine that loses power may leave an empty X as well: the one before it is kept as `X.bak`.

    It waits until a file that may still be written is complete, or old enough.
    """
    if any(_age(file) < _WRITING_SECONDS for file in _half_written(stack)):
        time.sleep(_WRITING_SECONDS)
    repaired = _half_written(stack)
    for file in repaired:
        file.unlink(missing_ok=True)
    state = state_file(stack)
    backup = state.with_name(f"{state.name}.bak")
    if state in repaired:
        shutil.copyfile(backup, state)
    return repaired


def _half_written(stack: str) -> list[Path]:
    locks, state = lock_directory(stack), state_file(stack)
    parts = [*locks.glob("*.tmp"), *state.parent.glob(f"{state.name}.*tmp")]
    attributes = [
        *locks.glob("*.attrs"),
        *state.parent.glob(f"{state.name}*.attrs"),
        bookkeeping("meta.yaml.attrs"),
    ]
    documents = [*attributes, *locks.glob("*.json")]
    if _is_document(state.with_name(f"{state.name}.bak")):
        documents.append(state)
    return [*parts, *(file for file in documents if file.exists() and not _is_document(file))]


def _is_document(file: Path) -> bool:
    """Whether it exists and is complete."""
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True


def _age(file: Path) -> float:
    """Seconds since it was written; a file that has gone meanwhile is new."""
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def end_orphans(checkout: Path) -> list[int]:
    """Ends the language hosts of `checkout` whose engine is gone, and returns their numbers.

    A killed CLI's plugins notice within moments, but Pulumi's language host looks for its engine
    only every five minutes.
    """
    found = orphans(checkout)
    for pid in found:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGTERM)
    return found


def orphans(checkout: Path) -> list[int]:
    """The language hosts of `checkout` whose engine is gone, by number.

    Without /proc (macOS) none is found; they end by themselves.
    """
    return [
        int(process.name)
        for process in _PROC.glob("[0-9]*")
        if _program(process) == _LANGUAGE_HOST
        and _link(process / "cwd") == checkout
        and _program(_PROC / _parent(process)) != "pulumi"
    ]


def _program(process: Path) -> str:
    """The name of its executable; empty when it has ended, or is another user's."""
    link = _link(process / "exe")
    return "" if link is None else link.name.removesuffix(" (deleted)")


def _parent(process: Path) -> str:
    """The number of its parent; 0 when it has ended meanwhile."""
    try:
        # The name in brackets may hold blanks.
        return (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return "0"


def _link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None


def _is_pulumi(pid: int) -> bool:
    """Whether that process lives and is a pulumi: after a reboot the number may be another's."""
    try:
        program = (_PROC / str(pid) / "exe").readlink()
    except FileNotFoundError:
        return False
    except PermissionError:  # another user's process, so its program is unknown
        return True
    return "pulumi" in program.name
