"""Which stack a cluster on this machine belongs to: a note that is left before it is made.

Two stacks may name one cluster, by mistake. Only the one that made it may change or remove it. What
an interrupted run has left is removed or gone on with, and what another program has made is never
touched.
"""

import re
from pathlib import Path

NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""What a cluster may be called: a DNS label, so never a path out of its directory."""
_FILE = "owner"


class NotOurs(RuntimeError):
    """The cluster is another stack's."""


def stack_of(directory: Path) -> str | None:
    """Return the stack that made the cluster, as `core.manifests.called` has it; None: no note."""
    try:
        return (directory / _FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def require(directory: Path, stack: str | None) -> None:
    """Raise `NotOurs` where a note names another stack."""
    found = stack_of(directory)
    if found is not None and stack is not None and found != stack:
        raise NotOurs(
            f"cluster {directory.name} belongs to the stack {found}, not to {stack}: give "
            f"slipway:cluster.name another name, or take {found} down first"
        )


def claim(directory: Path, stack: str) -> None:
    """Note that a cluster is a stack's, before anything is made of it; raises as `require`."""
    require(directory, stack)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / _FILE).write_text(stack, encoding="utf-8")
