"""`make down`: destroys a stack, removes whatever else is left of it, and verifies that."""

import shutil
from pathlib import Path

from clusters import CLUSTERS, owner
from clusters.cluster import OwnCluster
from core.manifests import called
from core.toolchain import ToolMissing
from jobs.logs import archive
from scripts.cli import CommandError, remains
from scripts.cli.backend import exists, exported, files, hidden_states, project, rows
from scripts.cli.commands import echo
from scripts.cli.config import cluster_of
from scripts.cli.pulumi_cli import INTERRUPTED, Cli
from scripts.cli.recovery import recover
from scripts.cli.temporary_config import temporary_config

_DESTROY = ("destroy", "--yes", "--skip-preview")


def down(stack: str) -> int:
    """Destroys the stack and forgets it, and proves that nothing of it is left.

    It also removes what an interrupted `up` left of the cluster. Nothing to destroy is a success.
    The user's Pulumi.<stack>.yaml stays; one that is gone is not needed.
    """
    with temporary_config(stack, echo):
        cluster_of(stack)  # raises for an unreadable file, before anything is done
        return _down(stack)


def _down(stack: str) -> int:
    if exists(stack):
        code = _destroy(Cli(stack))
        if code != 0:
            return code
    elif hidden := hidden_states(stack):
        raise CommandError(
            f"The state of {stack} is in {hidden[0]}, which this command does not read, so nothing "
            "was removed. Take the stack down with the settings of Pulumi's backend that it was "
            "made with, or convert it with `pulumi stack export` and `pulumi stack import`."
        )
    else:
        echo(f"Stack {stack} does not exist: nothing to destroy.")
    code = _remove_cluster(stack, "what an interrupted run left behind in")
    if code != 0:
        return code
    for file in files(stack):
        file.unlink()
    shutil.rmtree(archive.of_stack(stack), ignore_errors=True)
    return 0 if remains.prove(stack, cluster_of(stack), echo) else 1


def _destroy(cli: Cli) -> int:
    recover(cli, echo)
    code = _destroy_resources(cli)
    if code not in {0, INTERRUPTED} and _may_remove_cluster(cli):
        echo("Not all could be deleted; the cluster is the stack's own, so it goes with all in it.")
        code = _remove_cluster(cli.stack, "the cluster in") or _destroy_resources(cli)
    if code != 0:
        return code
    return cli.run("stack", "rm", "--yes", "--preserve-config", "--remove-backups")


def _may_remove_cluster(cli: Cli) -> bool:
    """Whether the stack's cluster may be removed with all that is in it.

    Not one that another process has begun to use meanwhile: `recover` raises `StackBusy`.
    """
    recover(cli, echo)
    resources = rows(exported(cli.stack), "resources")
    is_protected = any(resource.get("protect") for resource in resources)
    return _cluster_directory(cli.stack) is not None and not is_protected


def _destroy_resources(cli: Cli) -> int:
    if _own_cluster(cli.stack) is None:
        # While an existing cluster is unreachable, the state must keep what still runs in it.
        return cli.run(*_DESTROY)
    # What runs in a cluster that is gone can't be deleted, and is gone as well.
    return cli.run(*_DESTROY, PULUMI_K8S_DELETE_UNREACHABLE="true")


def _remove_cluster(stack: str, what: str) -> int:
    """Removes the stack's own cluster if it exists, whether or not the state contains it."""
    own, directory = _own_cluster(stack), _cluster_directory(stack)
    if own is None or directory is None:
        return 0
    echo(f"Removing {what} {directory}.")
    try:
        own.remove(directory)
    except (RuntimeError, OSError, ToolMissing) as error:
        echo(str(error))
        return 1
    return 0


def _own_cluster(stack: str) -> OwnCluster | None:
    """How the stack's kind of cluster finds and removes its own; None for an existing cluster."""
    kind = CLUSTERS.get(str(cluster_of(stack).get("kind")))
    return None if kind is None else kind.own


def _cluster_directory(stack: str) -> Path | None:
    """The directory of the stack's own cluster; None without one."""
    own, name = _own_cluster(stack), str(cluster_of(stack).get("name", stack))
    # No cluster was ever made with another name: it could lead out of the directory of clusters.
    if own is None or not owner.NAME.fullmatch(name):
        return None
    directory = own.directory(name)
    if not directory.exists():
        return None
    made_by = owner.of(directory)
    if made_by == called(project(), stack) or (made_by is None and exists(stack)):
        return directory
    echo(f"Cluster {name} is kept: it belongs to {made_by or 'an unknown stack'}.")
    return None
