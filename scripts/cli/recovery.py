"""Clears what an interrupted Pulumi left behind, so that the next command just works.

A killed CLI's lock is broken only when its process is surely gone. The operations that it had begun
are dropped from the state by exporting and importing it: each resource adopts what it had created.
"""

import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from core import files
from core.paths import of_project, state_dir
from core.problem import raised
from scripts.cli import backend, project
from scripts.cli.config import own
from scripts.cli.terminal import CommandError, echo

_WRITING_SECONDS = 2.0
"""Writing one of these files takes less: what is half-written after this was abandoned."""
_DAY = 24 * 3600.0
_LANGUAGE_HOST = "pulumi-language-python"
_WAYS = (
    "Wait for its end, or press Ctrl-C where it runs: training goes on in the cluster, and the "
    "next `make up` waits for it, beside a job that you have added to the stack's file. In a stack "
    "of its own, a job starts without either."
)


def alone(stack: str, *, waits: bool = False) -> ExitStack:
    """Keep other commands of these away from a stack, until what this returns is closed.

    With `waits` it is taken when another one has ended, which may be in a day; else that is raised.
    """
    name, held = quote(of_project(stack), safe=""), ExitStack()
    file = state_dir() / "locks" / f"{name}.lock"
    holders = list[str]()

    def see(holder: str) -> None:
        holders.append(holder)
        if waits:
            echo(f"Stack {stack} is in use by {holder}: this goes on when that has ended. {_WAYS}")

    files.private_directory(file.parent)
    try:
        held.enter_context(files.locked(file, limit=_DAY * waits, waiting=see))
    except TimeoutError as error:
        raise CommandError(f"Stack {stack} is in use by {holders[-1]}. {_WAYS}") from error
    return held


def recover(cli: backend.Cli) -> None:
    """Makes a stack ready for the next command; one that does not exist yet is."""
    repair_files(cli.stack)
    found = backend.locks(cli.stack)
    for lock in found.values():
        require_stale(lock, cli.stack)
    if found:
        echo(f"Removed the lock on stack {cli.stack}, left by a pulumi process that was killed.")
    for file in found:
        # `pulumi cancel` would also remove one that another command has taken meanwhile.
        file.unlink(missing_ok=True)
        file.with_name(f"{file.name}.attrs").unlink(missing_ok=True)
    end_orphans(project.directory())  # a preview that was killed leaves no lock
    pending = backend.rows(backend.exported(cli.stack), "pending_operations")
    if pending:
        begun = (f"{each['type']} {backend.name_of(each['resource'])}" for each in pending)
        echo(f"An earlier run was interrupted while {', '.join(begun)}; continuing from there.")
        cli.query("stack", "import", stdin=cli.query("stack", "export"))
    _require_passphrase(cli)


def _require_passphrase(cli: backend.Cli) -> None:
    """Raise `CommandError` where the user's file is encrypted with another passphrase."""
    deployment = backend.exported(cli.stack).get("deployment") or {}
    salts = re.compile(r"^encryptionsalt: *(\S+)", re.MULTILINE)
    found = salts.search(own(cli.stack).read_text()) if own(cli.stack).exists() else None
    if found and deployment and found[1] not in json.dumps(deployment.get("secrets_providers")):
        # Another salt may be right, so one value is encrypted by it, for a copy of the file.
        with TemporaryDirectory() as directory:
            copy = shutil.copy(own(cli.stack), directory)
            cli.query("config", "set", "--secret", "--config-file", copy, "probe", "x")


def require_stale(lock: Mapping[str, Any], stack: str) -> None:
    """Raises `CommandError` unless the lock's holder ran on this machine and is gone."""
    pid, host, since = (lock[key] for key in ("pid", "hostname", "timestamp"))
    if host != socket.gethostname():
        raise CommandError(
            f"Stack {stack} is locked by process {pid} on {host} since {since}. "
            f"If that has ended: pulumi cancel --stack {stack}"
        )
    # After a reboot the number may be another program's.
    if "pulumi" in (_program(pid) or _process(pid).get("Name", "")):
        # Its first word: more may have a secret in it, as `pulumi config set` has.
        word = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[1:2]
        raise CommandError(
            f"Stack {stack} is in use by process {pid} ({' '.join(['pulumi', *word])}) since "
            f"{since}. {_WAYS}"
        )


def repair_files(stack: str) -> list[Path]:
    """Remove a stack's half-written files, and return which those were.

    Pulumi writes a file X as `X.TIME.tmp`, then `X.attrs`, and renames the first
    (gocloud.dev/blob/fileblob): a killed one may leave a `.tmp`, which it takes for a lock, or an
    empty `X.attrs`; a loss of power also an empty lock or state, of which there is an `X.bak`.
    """
    if found := _half_written(stack):
        # One that is still being written must be complete then; new and open ones stay.
        time.sleep(_WRITING_SECONDS)
    after, held = _half_written(stack) if found else [], _open_files() if found else set()
    repaired = [file for file in after if file in found and file.resolve() not in held]
    for file in repaired:
        file.unlink(missing_ok=True)
    state = backend.state_file(stack)
    backup = state.with_name(f"{state.name}.bak")
    if not _is_whole(state) and backup.exists() and _is_whole(backup):
        shutil.copyfile(backup, state)
        repaired.append(state)
    return repaired


def _half_written(stack: str) -> list[Path]:
    state = backend.state_file(stack)
    kept = [*backend.lock_directory(stack).glob("*"), backend.bookkeeping("meta.yaml.attrs")]
    kept += [*state.parent.glob(f"{state.name}.*tmp"), *state.parent.glob(f"{state.name}*.attrs")]
    return [file for file in kept if file.suffix == ".tmp" or not _is_whole(file)]


def _open_files() -> set[Path]:
    """The files that processes have open; without /proc (macOS) none is known."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it has ended, or is another user's
            for each in process.iterdir():
                with suppress(OSError):
                    found.add(each.readlink())
    return found


def _is_whole(file: Path) -> bool:
    """Whether it is a complete document, or has gone meanwhile."""
    with suppress(FileNotFoundError):
        return raised(partial(json.loads, file.read_bytes()), ValueError) is None
    return True


def end_orphans(checkout: Path) -> list[int]:
    """Ends the language hosts of `checkout` without an engine: they look only every 5 minutes."""
    found = orphans(checkout)
    for pid in found:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGTERM)
    return found


def orphans(checkout: Path) -> list[int]:
    """The language hosts of `checkout` whose engine is gone, by number; without /proc none."""
    hosts = {
        int(place.name): _process(place.name).get("PPid", "0")
        for place in Path("/proc").glob("[0-9]*")
        if _program(place.name) == _LANGUAGE_HOST and (place / "cwd").resolve() == checkout
    }
    return [pid for pid, parent in hosts.items() if _program(parent) != "pulumi"]


def _program(pid: int | str) -> str:
    """The name of a process' file; empty of one that has ended, or is another user's."""
    try:
        # `Name` is cut, and for a moment after its start still that of what has started it.
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        return ""


def _process(pid: int | str) -> Mapping[str, str]:
    """What the kernel tells of a process: `Name`, `PPid`; nothing of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found = dict(line.split(":\t", 1) for line in lines)
    return {} if found["State"].startswith("Z") else found
