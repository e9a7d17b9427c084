"""Which of several failures was the one that mattered. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.topology import ranks_of
from jobs.watch.replicas import Exit, Replica
from jobs.watch.results import summary

_TOGETHER = timedelta(seconds=2)
"""Kubelets tell whole seconds, by clocks of their own."""
# What gloo, NCCL and torch's store say on a rank whose peer has gone:
# https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc
# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html (ncclRemoteError)
# https://github.com/pytorch/pytorch/blob/v2.6.0/torch/csrc/distributed/c10d/socket.h
_PEER_HAS_GONE = re.compile(
    r"connection (was likely )?closed|connection reset by peer|broken pipe|connection refused"
    r"|ncclRemoteError|remote process exited|NCCL communicator was aborted"
    r"|failed to recv, got 0 bytes|Application timeout caused pair closure",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Failure:
    """A replica's container that ended with an exit code other than 0."""

    replica: Replica
    exit: Exit

    @property
    def rank(self) -> int:
        """The rank that failed; of several in one replica the first, unless one of them told."""
        told = (summary(self.exit) or {}).get("rank")
        topology = self.replica.topology
        if isinstance(told, int) and not topology.elastic:
            return told
        return ranks_of(self.replica.number, topology.processes)[0]

    @property
    def follows_another(self) -> bool:
        """Whether it says itself that it failed since a peer was gone."""
        return _PEER_HAS_GONE.search(self.exit.message) is not None

    @property
    def finished(self) -> datetime:
        """When it ended, by its node's clock; the beginning of time when that is not told."""
        try:
            return datetime.fromisoformat(self.exit.finished)
        except ValueError:
            return datetime.min.replace(tzinfo=UTC)

    def __str__(self) -> str:
        """Name the rank and what happened to it."""
        return f"rank {self.rank} ({self.replica.name}) {self.exit}"


def first(failures: Sequence[Failure]) -> Failure:
    """Return the failure that the others followed; among equals the one that was seen first.

    A rank that fails takes the others along within the same second, so times alone don't tell.

    Args:
        failures: In the order in which they were seen; at least one.
    """
    earliest = min(failure.finished for failure in failures)
    near = [each for each in failures if each.finished - earliest <= _TOGETHER]
    return min(near, key=lambda each: (each.follows_another, each.finished))
