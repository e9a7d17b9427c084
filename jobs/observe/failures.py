"""Find what ended a run: the first of several failures, or a disruption by the cluster."""

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

_BURST = timedelta(seconds=10)  # between failures with one cause; kubelets report whole seconds
_TERMINATED = 128 + signal.SIGTERM


class Origin(IntEnum):
    """The origin of a failure, inferred from its symptoms; a lower value explains higher ones."""

    OWN = 0  # the program itself, or a signal that killed only it
    STOPPED = 1  # the program obeyed SIGTERM, or its pod was being deleted
    PEER = 2  # the program reports that a peer was lost or did not respond


@dataclass
class Failure:
    """A container whose exit may have ended the run, including an early exit with code 0."""

    replica: Replica  # as observed at the exit
    exit: Exit
    container: str = CONTAINER

    def __post_init__(self) -> None:
        self.finished = self.exit.finished  # by its node's clock
        if self.finished == NEVER:
            # An evicted container may have no end time: use the time its pod stopped being ready.
            ready = condition(self.replica.pod, "Ready")
            if ready.get("status", "True") != "True":
                self.finished = moment(ready.get("lastTransitionTime", ""))
        is_stopped = self.exit.code == _TERMINATED or self.replica.was_deleted(self.finished)
        is_own = self.replica.evicted is not None or not is_stopped
        self.origin = Origin.OWN if is_own else Origin.STOPPED
        if self.exit.lost_peer:
            self.origin = Origin.PEER
        # The rank that failed: the reported one, else the replica's first.
        reported, topology = self.exit.report.get("rank"), self.replica.topology
        is_known = type(reported) is int and not topology.elastic  # and not a bool
        self.rank = reported if is_known else topology.first_rank(self.replica.number)

    def __str__(self) -> str:
        who = f"rank {self.rank} ({self.replica.name})"
        if self.replica.evicted is not None:
            return f"{who} was evicted by its node: {self.replica.evicted}"
        early = " before the other ranks were done" if self.exit.code == 0 else ""
        raised = f": {self.exit.exception}" if self.exit.exception is not None else ""
        return f"{who} {self.exit}{early}{raised}"


def first(failures: Sequence[Failure], ended_well: Iterable[Failure] = ()) -> Failure:
    """Return the failure that ended the run: in the last burst, the first that explains the others.

    A failed rank makes its peers fail, and may be running again before they notice. So the peers'
    failures are traced back to earlier ones that happened while those peers were still running.

    `failures` are in the order observed. `ended_well` are the exits with code 0, since a rank that
    exits early makes its peers fail, too.
    """
    left = sorted(failures, key=lambda each: each.finished)
    last = group = _burst(left)
    while all(each.origin is not Origin.OWN for each in group):
        left = [each for each in left if each not in group]
        before = [each for each in left if any(_ran_when(each, other) for other in group)]
        if not before:
            # A rank that obeyed SIGTERM did not lose a peer.
            missed = any(each.origin is Origin.PEER for each in group)
            early = [each for each in ended_well if missed and each.finished <= last[-1].finished]
            group = [min(early, key=lambda each: each.finished)] if early else group
            break
        group = _burst(before)
    cause = min(group, key=lambda each: (each.origin, each.finished))
    same = (cause.replica.number, cause.origin)
    return [each for each in group if (each.replica.number, each.origin) == same][-1]


def _burst(failures: Sequence[Failure]) -> list[Failure]:
    """Return the last of the sorted `failures`, and the ones that shortly precede it."""
    gaps = (after.finished - before.finished for before, after in pairwise(failures))
    begin = max((number for number, gap in enumerate(gaps, 1) if gap > _BURST), default=0)
    return list(failures[begin:])


def _ran_when(failed: Failure, other: Failure) -> bool:
    """Return whether `other`, from another replica, was still running when `failed` ended."""
    same = failed.replica.number == other.replica.number
    return not same and other.exit.started <= failed.finished


@dataclass(frozen=True)
class Disruption:
    """A pod lost because of the cluster rather than its program, so a retry may help."""

    text: str
    pod: str  # its uid
    at: datetime  # by the cluster's clock

    def brought_about(self, cause: Failure | None) -> bool:
        """Return whether this led to `cause`, the run's failure; True if `cause` is None."""
        if cause is None:
            return True
        if cause.exit.out_of_memory:
            return False
        follows = cause.replica.uid == self.pod or cause.origin is Origin.PEER
        return follows or timedelta(0) <= cause.finished - self.at <= timedelta(seconds=60)


def disruption(pod: Mapping[str, Any], *, is_running: bool = False) -> Disruption | None:
    """Return what disrupted a pod, if anything: the cluster, or a deletion while it ran."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if holds(pod, "DisruptionTarget"):
        target = condition(pod, "DisruptionTarget")
        what = SIGNS["disruptions"].get(target.get("reason", ""), "was disrupted")
        detail = ": ".join(filter(None, (target.get("reason"), target.get("message"))))
        return _of(pod, f"pod {name} {what} ({detail})", target.get("lastTransitionTime"))
    # For older clusters, and nodes that can't set the condition.
    if status.get("reason") in {"NodeLost", "NodeShutdown", "Shutdown"}:
        return _of(pod, f"pod {name} was lost ({status['reason']}: {status.get('message', '')})")
    if is_running and "deletionTimestamp" in pod["metadata"]:
        return _of(pod, f"pod {name} was deleted while its program was running")
    return None


def on_lost_nodes(
    pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the pods whose node was removed or is not Ready."""
    well = {None, *(node["metadata"]["name"] for node in nodes if holds(node, "Ready"))}
    return [pod for pod in pods if pod.get("spec", {}).get("nodeName") not in well]


def lost_node(
    pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> Disruption | None:
    """Return the disruption of a pod whose node was removed or is not Ready, if there is one."""
    for pod in on_lost_nodes(pods, nodes):
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        return _of(pod, f"node {node}, which pod {name} was running on, is gone or not Ready")
    return None


def _of(pod: Mapping[str, Any], text: str, at: str | None = None) -> Disruption:
    when = datetime.now(UTC) if at is None else datetime.fromisoformat(at)
    return Disruption(text, str(pod["metadata"]["uid"]), when)
