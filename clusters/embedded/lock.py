"""One program at a time on one cluster."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from clusters.embedded import waiting
from clusters.embedded.layout import Layout

LIMIT = 120


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Keep others away: a program that was left behind may still be at work on the cluster.

    Raises:
        TimeoutError: another program holds it for `LIMIT` seconds.
    """
    with (layout.directory / "lock").open("w") as lock:
        waiting.until_well(lambda: _problem(lock.fileno()), what="the cluster's lock", limit=LIMIT)
        yield


def _problem(descriptor: int) -> str | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "another program is at work on the cluster"
    return None
