"""Clean up after Pulumi was interrupted, so that the next command works.

A killed CLI's lock is removed only if its process has certainly exited. Exporting and importing the
state drops pending operations; each resource then adopts the objects that it had already created.
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
"""Seconds that writing a file may take; a file that is incomplete for longer was abandoned."""
_WAYS = (
    "Wait until that command finishes, or press Ctrl-C where it is running: training continues in "
    "the cluster, and the next `make up` waits for it while starting any job that you have added "
    "to the stack's file. To start a job right away, use another stack."
)


def alone(stack: str, *, waits: bool = False) -> ExitStack:
    """Lock a stack against other commands that change it, until the returned object is closed.

    If another command holds the lock, wait up to a day if `waits` is set, or else raise
    `CommandError`.
    """
    name, held = quote(of_project(stack), safe=""), ExitStack()
    file = state_dir() / "locks" / f"{name}.lock"
    holders = list[str]()

    def see(holder: str) -> None:
        holders.append(holder)
        if waits:
            echo(f"Stack {stack} is in use by {holder}: waiting until it finishes. {_WAYS}")

    files.private_directory(file.parent)
    try:
        held.enter_context(files.locked(file, limit=24 * 3600.0 * waits, waiting=see))
    except TimeoutError as error:
        raise CommandError(f"Stack {stack} is in use by {holders[-1]}. {_WAYS}") from error
    return held


def recover(cli: backend.Cli) -> None:
    """Clean up what interrupted commands left behind in a stack, which need not exist.

    Raises `CommandError` if the stack is in use or can't be decrypted.
    """
    repair_files(cli.stack)
    locks = backend.locks(cli.stack)
    for lock in locks.values():
        require_stale(lock, cli.stack)
    if locks:
        echo(f"Removed a lock on stack {cli.stack} that a killed pulumi process left behind.")
    for file in locks:
        # `pulumi cancel` would also remove a new lock held by another command.
        file.unlink(missing_ok=True)
        file.with_name(f"{file.name}.attrs").unlink(missing_ok=True)
    # A killed preview leaves no lock, but its language host could run for 5 more minutes.
    for pid in orphans(project.directory()):
        with suppress(ProcessLookupError):  # it has exited
            os.kill(pid, signal.SIGTERM)
    pending = backend.rows(backend.exported(cli.stack), "pending_operations")
    if pending:
        begun = (f"{each['type']} {backend.name_of(each['resource'])}" for each in pending)
        echo(f"An earlier run was interrupted while {', '.join(begun)}; continuing from there.")
        cli.query("stack", "import", stdin=cli.query("stack", "export"))
    _require_passphrase(cli)


def _require_passphrase(cli: backend.Cli) -> None:
    """Raise `CommandError` if the user's file is encrypted with a different passphrase."""
    deployment = backend.exported(cli.stack).get("deployment") or {}
    salts = re.compile(r"^encryptionsalt: *(\S+)", re.MULTILINE)
    salt = salts.search(own(cli.stack).read_text()) if own(cli.stack).exists() else None
    if salt and deployment and salt[1] not in json.dumps(deployment.get("secrets_providers")):
        # A different salt may be valid: test it by encrypting a value in a copy of the file.
        with TemporaryDirectory() as directory:
            copy = shutil.copy(own(cli.stack), directory)
            cli.query("config", "set", "--secret", "--config-file", copy, "probe", "x")


def require_stale(lock: Mapping[str, Any], stack: str) -> None:
    """Raise `CommandError` unless the lock's holder ran on this machine and has exited."""
    pid, host, since = (lock[key] for key in ("pid", "hostname", "timestamp"))
    if host != socket.gethostname():
        raise CommandError(
            f"Stack {stack} has been locked by process {pid} on {host} since {since}. "
            f"If that process has exited, run: pulumi cancel --stack {stack}"
        )
    # After a reboot, the PID may belong to another program.
    if "pulumi" in (_program(pid) or _process(pid).get("Name", "")):
        # Only the first argument, since later ones of `pulumi config set` include a secret.
        word = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[1:2]
        raise CommandError(
            f"Stack {stack} is in use by process {pid} ({' '.join(['pulumi', *word])}) since "
            f"{since}. {_WAYS}"
        )


def repair_files(stack: str) -> None:
    """Remove or restore a stack's half-written files.

    To write a file X, Pulumi writes `X.TIME.tmp`, then `X.attrs`, and renames the former to X
    (gocloud.dev/blob/fileblob). If killed, it may leave behind a `.tmp`, which it treats as a lock,
    or an empty `X.attrs`. A power failure may also leave an empty lock or state; a state has a
    backup, `X.bak`.
    """
    if before := _half_written(stack):
        # After this, a file that was being written is complete; new and open files are kept.
        time.sleep(_WRITING_SECONDS)
        after, held = _half_written(stack), _open_files()
        for file in after:
            if file in before and file.resolve() not in held:
                file.unlink(missing_ok=True)
    state = backend.state_file(stack)
    backup = state.with_name(f"{state.name}.bak")
    if not _is_complete(state) and backup.exists() and _is_complete(backup):
        shutil.copyfile(backup, state)


def _half_written(stack: str) -> list[Path]:
    state = backend.state_file(stack)
    kept = [*backend.lock_directory(stack).glob("*"), backend.bookkeeping("meta.yaml.attrs")]
    kept += [*state.parent.glob(f"{state.name}.*tmp"), *state.parent.glob(f"{state.name}*.attrs")]
    return [file for file in kept if file.suffix == ".tmp" or not _is_complete(file)]


def _open_files() -> set[Path]:
    """Return the files that are open in any process; empty if there is no /proc (macOS)."""
    paths = set()
    for process in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it has exited, or is another user's
            for each in process.iterdir():
                with suppress(OSError):
                    paths.add(each.readlink())
    return paths


def _is_complete(file: Path) -> bool:
    """Return whether a file is a complete document or has since been deleted."""
    with suppress(FileNotFoundError):
        return raised(partial(json.loads, file.read_bytes()), ValueError) is None
    return True


def orphans(checkout: Path) -> list[int]:
    """Return the PIDs of language hosts in `checkout` whose engine has exited; [] on macOS."""
    return [
        int(place.name)
        for place in Path("/proc").glob("[0-9]*")
        if _program(place.name) == "pulumi-language-python"
        and (place / "cwd").resolve() == checkout
        and _program(_process(place.name).get("PPid", "0")) != "pulumi"
    ]


def _program(pid: int | str) -> str:
    """Return the name of a process's executable; "" if it has exited or is another user's."""
    try:
        # Not `Name`: it is truncated and, just after the fork, still the parent's.
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        return ""


def _process(pid: int | str) -> Mapping[str, str]:
    """Return a process's fields in /proc, such as `Name` and `PPid`; {} if it has exited."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = dict(line.split(":\t", 1) for line in lines)
    return {} if fields["State"].startswith("Z") else fields
