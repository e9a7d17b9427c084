"""What this machine has of what a local cluster is made of, and who asks for more."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pulumi

from clusters.local.fields import Mount
from core.problem import Problem


def cores() -> int:
    """Return how many cores this machine has."""
    return os.cpu_count() or 1


def memory() -> int:
    """Return how many bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def unmountable(key: str, mount: Mount) -> Iterator[Problem]:
    """Yield a mount of what is not there: an engine would make an empty directory, root's.

    Args:
        key: Where the settings have it.
        mount: What they have there.
    """
    if not Path(mount.host).exists():
        text = f"{mount.host} is not on this machine; make it, or name one that is there"
        yield Problem(f"{key}.host", text)


def require(problems: Iterable[Problem]) -> None:
    """Let nothing be declared that this machine has not got the means for.

    Raises:
        pulumi.RunError: with all of the problems.
    """
    if found := list(problems):
        raise pulumi.RunError("\n".join(map(str, found)))
