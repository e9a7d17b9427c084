"""up, preview and down: the CLI's commands, with what a person would otherwise do around them."""

import os
import subprocess
import sys

from infra.paths import CHECKOUT, state_dir
from scripts.stack.backend import exists
from scripts.stack.cli import Cli
from scripts.stack.files import check, cluster_of, ensure_own
from scripts.stack.recovery import recover

_REMOVAL_LIMIT = 300  # seconds for what a cluster left behind


def up(stack: str) -> int:
    """Makes the stack's file and the stack if they are missing, and updates it."""
    return _prepared(stack).run("up", "--yes")


def preview(stack: str) -> int:
    """Shows what `up` would do, down to the field that changes, and does none of it.

    Makes the stack's file and an empty stack if they are missing.
    """
    return _prepared(stack).run("preview", "--diff")


def down(stack: str) -> int:
    """Destroys the stack and forgets it; what an interrupted `up` left of its cluster goes, too.

    Nothing to destroy is a success. The person's Pulumi.<stack>.yaml stays.
    """
    if exists(stack):
        code = _destroy(Cli(stack))
        if code != 0:
            return code
    else:
        check(stack)
        say(f"Stack {stack} is not there: nothing to destroy.")
    return _remove_remains(stack)


def say(line: str) -> None:
    """Prints a line between those of Pulumi."""
    print(line, file=sys.stderr, flush=True)


def _prepared(stack: str) -> Cli:
    """The CLI on a stack that exists, is selected, and is not held by a dead process."""
    ensure_own(stack)
    cli = Cli(stack)
    cli.ask("stack", "select", "--create")
    recover(cli, say)
    return cli


def _destroy(cli: Cli) -> int:
    recover(cli, say)
    # What runs in a cluster that is gone can't be deleted, and is gone as well.
    code = cli.run("destroy", "--yes", PULUMI_K8S_DELETE_UNREACHABLE="true")
    if code != 0:
        return code
    return cli.run("stack", "rm", "--yes", "--preserve-config")


def _remove_remains(stack: str) -> int:
    """Removes an embedded cluster that the state doesn't know: its create never came to an end."""
    cluster = cluster_of(stack)
    directory = state_dir() / "clusters" / str(cluster.get("name", stack))
    if cluster.get("kind") != "embedded" or not directory.exists():
        return 0
    say(f"Removing what an interrupted run left in {directory}.")
    command = [sys.executable, "-m", "clusters.embedded", "delete", "--directory", str(directory)]
    return subprocess.run(
        command, cwd=CHECKOUT, env=os.environ, timeout=_REMOVAL_LIMIT, check=False
    ).returncode
