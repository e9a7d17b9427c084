"""What ended a run: which of several failures came first, or what its cluster did. Pure."""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from itertools import pairwise
from typing import Any

from core.manifests import condition, holds
from jobs.api.lines import NEVER, moment
from jobs.model.names import CONTAINER
from jobs.observe.exits import SIGNS, Exit
from jobs.observe.replica import Replica

_BURST = timedelta(seconds=10)  # between failures of one cause; kubelets report full seconds
_TERMINATED = 128 + signal.SIGTERM


class Origin(IntEnum):
    """Where a failure comes from, by what can be seen of it; the lowest explains the others."""

    OWN = 0  # the program itself, or what killed it alone
    STOPPED = 1  # it was stopped: it obeyed SIGTERM, or its pod was being deleted
    PEER = 2  # it reports that a peer had gone or did not answer


@dataclass
class Failure:
    """A container that ended, and took the run along: with code 0 if too early."""

    replica: Replica  # as its pod showed it then
    exit: Exit
    container: str = CONTAINER

    def __post_init__(self) -> None:
        self.finished = self.exit.finished  # by its node's clock
        if self.finished == NEVER:
            # Of one that a node evicts it may not know that: then since when its pod is not ready.
            ready = condition(self.replica.pod, "Ready")
            if ready.get("status", "True") != "True":
                self.finished = moment(ready.get("lastTransitionTime", ""))
        is_stopped = self.exit.code == _TERMINATED or self.replica.was_deleted(self.finished)
        is_own = self.replica.evicted is not None or not is_stopped
        self.origin = Origin.OWN if is_own else Origin.STOPPED
        if self.exit.lost_peer:
            self.origin = Origin.PEER
        # The rank that failed; of several in one replica the first, unless one reported it.
        reported, topology = self.exit.report.get("rank"), self.replica.topology
        is_known = type(reported) is int and not topology.elastic  # which no bool is
        self.rank = reported if is_known else topology.first_rank(self.replica.number)

    def __str__(self) -> str:
        who = f"rank {self.rank} ({self.replica.name})"
        if self.replica.evicted is not None:
            return f"{who} was evicted by its node: {self.replica.evicted}"
        early = " before the other ranks were done" if self.exit.code == 0 else ""
        raised = f": {self.exit.exception}" if self.exit.exception is not None else ""
        return f"{who} {self.exit}{early}{raised}"


def first(failures: Sequence[Failure], ended_well: Iterable[Failure] = ()) -> Failure:
    """Return the failure that ended the run: of the last ones the first that explains the others.

    A rank that fails takes its peers along, and may be running again before they notice. So
    failures that come from a peer are traced back to what had failed while they still ran.

    `failures` are in the order in which they were seen, `ended_well` the exits with code 0: a rank
    that ends early takes its peers along as well.
    """
    left = sorted(failures, key=lambda each: each.finished)
    last = group = _burst(left)
    while all(each.origin is not Origin.OWN for each in group):
        left = [each for each in left if each not in group]
        before = [each for each in left if any(_ran_when(each, other) for other in group)]
        if not before:
            # A rank that obeyed a signal to end did not miss a peer.
            missed = any(each.origin is Origin.PEER for each in group)
            early = [each for each in ended_well if missed and each.finished <= last[-1].finished]
            group = [min(early, key=lambda each: each.finished)] if early else group
            break
        group = _burst(before)
    found = min(group, key=lambda each: (each.origin, each.finished))
    same = (found.replica.number, found.origin)
    return [each for each in group if (each.replica.number, each.origin) == same][-1]


def _burst(failures: Sequence[Failure]) -> list[Failure]:
    """Return the last of `failures`, which are in order, and those that came shortly before it."""
    gaps = (after.finished - before.finished for before, after in pairwise(failures))
    begin = max((number for number, gap in enumerate(gaps, 1) if gap > _BURST), default=0)
    return list(failures[begin:])


def _ran_when(failed: Failure, other: Failure) -> bool:
    """Return whether `other`, of another replica, still ran when `failed` ended."""
    same = failed.replica.number == other.replica.number
    return not same and other.exit.started <= failed.finished


@dataclass(frozen=True)
class Disruption:
    """A pod that was lost to its cluster and not to its program: a retry may cure that."""

    text: str
    pod: str  # its uid
    at: datetime  # by the cluster's clock

    def brought_about(self, cause: Failure | None) -> bool:
        """Return whether it explains `cause`, the failure that ended the run, if any."""
        if cause is None:
            return True
        if cause.exit.out_of_memory:
            return False
        follows = cause.replica.uid == self.pod or cause.origin is Origin.PEER
        return follows or timedelta(0) <= cause.finished - self.at <= timedelta(seconds=60)


def disruption(pod: Mapping[str, Any], *, is_running: bool = False) -> Disruption | None:
    """Return how the cluster took a pod away, or that it was deleted while it ran; else None."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if holds(pod, "DisruptionTarget"):
        found = condition(pod, "DisruptionTarget")
        what = SIGNS["disruptions"].get(found.get("reason", ""), "was taken away")
        detail = ": ".join(filter(None, (found.get("reason"), found.get("message"))))
        return _of(pod, f"pod {name} {what} ({detail})", found.get("lastTransitionTime"))
    # Of older clusters, and of nodes that can't set the condition.
    if status.get("reason") in {"NodeLost", "NodeShutdown", "Shutdown"}:
        return _of(pod, f"pod {name} was lost ({status['reason']}: {status.get('message', '')})")
    if is_running and "deletionTimestamp" in pod["metadata"]:
        return _of(pod, f"pod {name} was deleted while its program ran")
    return None


def on_lost_nodes(
    pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return those of the pods whose node is gone or doesn't answer."""
    well = {None, *(node["metadata"]["name"] for node in nodes if holds(node, "Ready"))}
    return [pod for pod in pods if pod.get("spec", {}).get("nodeName") not in well]


def lost_node(
    pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> Disruption | None:
    """Return which node of these pods is gone or doesn't answer; None when all are well."""
    for pod in on_lost_nodes(pods, nodes):
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        return _of(pod, f"node {node}, where pod {name} ran, is gone or not Ready")
    return None


def _of(pod: Mapping[str, Any], text: str, at: str | None = None) -> Disruption:
    when = datetime.now(UTC) if at is None else datetime.fromisoformat(at)
    return Disruption(text, str(pod["metadata"]["uid"]), when)
