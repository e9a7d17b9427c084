"""`make down`: destroy a stack, remove what it leaves behind, and check that nothing is left."""

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from clusters import owner
from clusters.cluster import OwnCluster
from clusters.kinds import CLUSTERS, default_name
from core.manifests import called
from core.paths import project_name
from core.problem import raised
from core.process import CommandFailed
from core.toolchain import ToolMissing
from infra import settings
from jobs.records import archive
from scripts.cli import backend, project
from scripts.cli.config import check, cluster_of, own, template
from scripts.cli.recovery import orphans, recover, repair_files
from scripts.cli.runs import fetch
from scripts.cli.state import read_state
from scripts.cli.terminal import CommandError, echo

_WAIT_SECONDS = 10.0  # for the kernel to end killed processes and close their files
_POLL_SECONDS = 0.2


def down(stack: str, keep: str = "") -> int:
    """Destroy the stack and what an interrupted `up` left behind, and check that nothing is left.

    If `keep` is set, the jobs' files are first copied to that directory. The user's
    Pulumi.<stack>.yaml is kept. Returns 0 if nothing is left, even if there was nothing to destroy.
    """
    with temporary_config(stack):
        cluster_of(stack)  # raise first if the file can't be read
        code = 0
        if backend.exists(stack):
            _keep_files(stack, keep)
            code = _destroy(backend.Cli(stack))
        elif hidden := [each for each in backend.files(stack) if each.suffix in {".gz", ".zst"}]:
            raise CommandError(
                f"The state of {stack} is in {hidden[0]}, which this command can't read, so "
                "nothing was removed. Convert it with `pulumi stack export` and `import`."
            )
        else:
            echo(f"Stack {stack} does not exist: nothing to destroy.")
        code = code or _remove_cluster(stack, "what an interrupted run left in")
        if code != 0:
            return code
        for file in backend.files(stack):
            file.unlink()
        shutil.rmtree(archive.of_stack(stack), ignore_errors=True)
        return 0 if prove(stack, cluster_of(stack)) else 1


def _keep_files(stack: str, keep: str) -> None:
    """Copy the jobs' files to the directory `keep`, if set, and print what `down` removes."""
    runs, what = fetch.lost_with(stack, read_state(stack), backend.exported(stack))
    for job, run in runs if keep else ():
        # `fetch` raises `CommandError` unless it copied all files, so that nothing is destroyed.
        fetch.fetch(stack, job, str(Path(keep, job, run)), run)
    if what:
        copy = f" `make down KEEP=DIRECTORY STACK={stack}` first copies the files." if runs else ""
        echo(f"Removed with the stack: {what}.{'' if keep else copy}")


def _destroy(cli: backend.Cli) -> int:
    recover(cli)
    code = _destroy_resources(cli)
    if code not in {0, backend.INTERRUPTED}:
        recover(cli)  # raises `CommandError` if another process now uses the stack
        resources = backend.rows(backend.exported(cli.stack), "resources")
        is_protected = any(each.get("protect") for each in resources)
        if not is_protected and _cluster_directory(cli.stack) is not None:
            own = "the cluster belongs to the stack, so it is removed with everything in it."
            echo(f"Not all resources could be deleted; {own}")
            code = _remove_cluster(cli.stack, "the cluster in") or _destroy_resources(cli)
    return code or cli.run("stack", "rm", "--yes", "--preserve-config", "--remove-backups")


def _destroy_resources(cli: backend.Cli) -> int:
    # Resources in a removed cluster no longer exist and can't be deleted. While an existing cluster
    # is unreachable, the state must keep the resources that may still be running there.
    is_own = _own_cluster(cli.stack) is not None
    variables = {"PULUMI_K8S_DELETE_UNREACHABLE": "true"} if is_own else {}
    return cli.run("destroy", "--yes", "--skip-preview", backend.QUIET, **variables)


def _remove_cluster(stack: str, what: str) -> int:
    """Remove the stack's own cluster, even if it is not in the state; return 1 if that failed."""
    own, directory = _own_cluster(stack), _cluster_directory(stack)
    if own is not None and directory is not None:
        # Everything that a cluster uses on this machine is named after its directory.
        what = what if directory.exists() else "the rest of the cluster in the deleted directory"
        echo(f"Removing {what} {directory}.")
        why = raised(partial(own.remove, directory), RuntimeError, OSError, ToolMissing)
        if why is not None:
            echo(why)
            return 1
    return 0


def _own_cluster(stack: str) -> OwnCluster | None:
    """Return the kind of cluster that the stack creates on this machine, or None if it has none."""
    kind = CLUSTERS.get(str(cluster_of(stack).get("kind")))
    return None if kind is None else kind.own


def _cluster_directory(stack: str) -> Path | None:
    """Return the directory of the cluster that the stack created on this machine, or None."""
    own, section = _own_cluster(stack), cluster_of(stack)
    if own is None:
        return None
    name = str(section.get("name", default_name(str(section["kind"]), section, stack)))
    # Other names were never allowed, as they could lead out of the directory for clusters.
    if not owner.NAME.fullmatch(name):
        return None
    directory = own.directory(name)
    if not directory.exists():
        runs_here = CLUSTERS[str(section["kind"])].runs_on_host
        return directory if runs_here and any(_of_cluster(stack, section).values()) else None
    made_by = owner.stack_of(directory)
    # A cluster named after the stack belongs to it, even if the owner file was deleted.
    is_deleted = not (directory / owner.NOTE).exists() and "name" not in section
    is_unnoted = made_by is None and (backend.exists(stack) or is_deleted)
    if made_by == called(project_name(), stack) or is_unnoted:
        return directory
    claiming = f"printf {called(project_name(), stack)} >{directory}/{owner.NOTE}"
    whose = made_by or f"an unknown stack. If it is {stack}'s, run this and try again: {claiming}"
    echo(f"Cluster {name} is kept: it belongs to {whose}")
    return None


@contextmanager
def temporary_config(stack: str) -> Iterator[None]:
    """Provide the stack's file for the `with` block, creating a temporary one if it is missing.

    A temporary file contains the last update's settings or, if there was no update, the committed
    settings. Raises `CommandError` if neither exists.
    """
    file = own(stack)
    if file.exists() or not backend.exists(stack):
        check(stack)
        yield
        return
    repair_files(stack)
    try:
        why = raised(partial(backend.Cli(stack).query, "config", "refresh"), CommandFailed)
        if why is None:
            echo(f"{file.name} is missing; using the settings from the stack's last update.")
        elif template(stack).exists():
            shutil.copyfile(template(stack), file)
        else:
            raise CommandError(
                f"{file.name} is missing and can't be restored: {why}\nCopy a file from "
                f"{template(stack).parent.name}/, restore the previous cluster setting, and run "
                "the command again."
            )
        yield
    finally:
        file.unlink(missing_ok=True)


def prove(stack: str, cluster: Mapping[str, Any]) -> bool:
    """Return whether the stack is completely gone; print that, or how to remove what is left."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while any((remains := _remains(stack, cluster)).values()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    left = [thing for things in remains.values() for thing in things]
    if left:
        listed = "".join(f"\n  {thing}" for thing in left)
        echo(f"Left over from {stack}, with the commands to remove it:{listed}")
        return False
    echo(f"Removed {stack} completely: {', '.join(f'0 {kind}' for kind in remains)} left.")
    return True


def _of_cluster(stack: str, cluster: Mapping[str, Any]) -> dict[str, list[str]]:
    try:
        parsed = settings.parse({"slipway:cluster": json.dumps(cluster)}, stack).cluster
    except settings.SettingsError:
        return {}  # `pulumi up` rejects such settings, so no cluster has them
    remains = CLUSTERS[parsed.kind].remains(parsed.options, called(project_name(), stack))
    return {kind: list(things) for kind, things in remains.items()}


def _remains(stack: str, cluster: Mapping[str, Any]) -> dict[str, list[str]]:
    remains = defaultdict(list, _of_cluster(stack, cluster))
    hosts = orphans(project.directory())
    remains["processes"] += [f"process {pid}, orphaned by pulumi: kill {pid}" for pid in hosts]
    kept = [*backend.files(stack), *filter(Path.exists, [archive.of_stack(stack)])]
    remains["files"] += [f"{path}: rm -r {path}" for path in kept]
    return remains
