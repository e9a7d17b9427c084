"""Clears what an interrupted Pulumi left behind, so that the next command just works.

A killed CLI leaves its lock, which names host and process, and the operations that it had begun.
The lock is broken only when that process is surely gone. The operations are dropped from the state
by exporting and importing it, which needs no cluster to answer: every resource of this project
adopts what an interrupted create has made.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core import lock
from core.paths import CHECKOUT, state_dir
from scripts.cli.backend import Lock, exported, locks
from scripts.cli.errors import CommandError
from scripts.cli.orphans import end_orphans
from scripts.cli.pulumi_cli import Cli, rows


class StackBusy(CommandError):
    """Somebody else is at work on the stack, or may be."""


@contextmanager
def alone(stack: str) -> Iterator[None]:
    """Keeps other commands of these away from a stack, from looking at it to the end.

    Raises:
        StackBusy: one is at work on it.
    """
    file = state_dir() / "locks" / f"{quote(stack, safe='')}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(lock.held(file, limit=0))
        except TimeoutError as error:
            raise StackBusy(
                f"Another `make` command is at work on stack {stack}. Wait for it, or end it."
            ) from error
        yield


def recover(cli: Cli, say: Callable[[str], None]) -> None:
    """Makes a stack that exists ready for the next command.

    Args:
        cli: Bound to the stack.
        say: Takes a line for the person.

    Raises:
        StackBusy: its lock is held by a live process, or by another machine.
    """
    found = locks(cli.stack)
    for each in found:
        require_stale(each, cli.stack)
    if found:
        say(f"A pulumi that was killed had left {cli.stack} locked; the lock is removed.")
    for each in found:
        # `pulumi cancel` would also remove one that another command has taken meanwhile.
        each.file.unlink(missing_ok=True)
        each.file.with_name(f"{each.file.name}.attrs").unlink(missing_ok=True)
    end_orphans(CHECKOUT)  # a preview that was killed leaves no lock
    pending = pending_operations(exported(cli.stack))
    if pending:
        say("An earlier run was interrupted while " + ", ".join(pending) + "; going on from there.")
        cli.ask("stack", "import", given=cli.ask("stack", "export"))


def require_stale(lock: Lock, stack: str) -> None:
    """Raises `StackBusy` unless the lock's holder ran on this machine and is gone."""
    if lock.hostname != socket.gethostname():
        raise StackBusy(
            f"Stack {stack} is locked by process {lock.pid} on {lock.hostname} since "
            f"{lock.timestamp}. If that has ended: pulumi cancel --stack {stack}"
        )
    if _is_pulumi(lock.pid):
        raise StackBusy(
            f"Stack {stack} is being worked on by pulumi, process {lock.pid}, since "
            f"{lock.timestamp}. Wait for it, or end that process."
        )


def pending_operations(deployment: Any) -> list[str]:
    """What was begun and not ended, as "creating NAME", from an exported state."""
    operations = rows(deployment, "pending_operations")
    return [
        f"{operation['type']} {operation['resource']['urn'].rsplit('::', 1)[-1]}"
        for operation in operations
    ]


def _is_pulumi(pid: int) -> bool:
    """Whether that process lives and is a pulumi: after a reboot the number may be another's."""
    try:
        program = Path(f"/proc/{pid}/exe").readlink()
    except FileNotFoundError:
        return False
    except PermissionError:  # another user's: nobody here can tell
        return True
    return "pulumi" in program.name
