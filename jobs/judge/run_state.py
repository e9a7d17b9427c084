"""What a run has been seen to do so far: its pods, failures, disruptions and progress. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from clusters import autoscaler
from clusters.autoscaler import Growth
from jobs.judge import first_failure
from jobs.judge.exits import FailedInit, moment
from jobs.judge.first_failure import Disruption, Failure, Origin, deleted, disruption
from jobs.judge.progress import Progress
from jobs.judge.replica import Replica, is_of, is_replica, replicas
from jobs.judge.shortage import Shortage
from jobs.topology import Topology


@dataclass
class RunState:
    """One run as it was seen so far.

    Args:
        job: The PyTorchJob as it was submitted or adopted.
    """

    job: Mapping[str, Any]
    failures: list[Failure] = field(default_factory=list)
    """In the order in which they were seen."""
    disruption: Disruption | None = None
    """How the cluster took a pod away before anything failed by itself."""
    lost_node: Disruption | None = None
    """A node of a replica that has not ended, which is gone or does not answer."""
    shortage: Shortage | None = None
    """What the pods that wait for a node lack."""
    refusal: str | None = None
    """Why pods are not admitted."""
    growth: Growth | None = None
    """The autoscaler's latest answer about those pods; None without one."""
    setbacks: Sequence[str] = ()
    """Why it could make no nodes."""
    gone: bool = False
    """Whether the job was deleted, not by Slipway."""
    _since: dict[str, float] = field(default_factory=dict)
    """When each condition of `lasted` was first judged, in seconds since it was submitted."""
    _pods: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _started: set[int] = field(default_factory=set)
    _failed_inits: dict[int, FailedInit] = field(default_factory=dict)
    """Each replica's latest: its pod no longer shows it while it is tried once more."""
    _ended_well: list[Failure] = field(default_factory=list)
    """Exits with code 0, in the order in which they were seen."""

    @property
    def uid(self) -> str:
        """The job's identity: another job of the same name is not this run."""
        return str(self.job["metadata"]["uid"])

    @cached_property
    def topology(self) -> Topology:
        """What the job consists of."""
        return Topology.of(self.job)

    @cached_property
    def progress(self) -> Progress:
        """How far its training is."""
        return Progress(self.topology.world_size)

    @property
    def replicas(self) -> dict[int, Replica]:
        """Each replica as it was seen last, also after its pod has gone."""
        return replicas(self._pods.values(), self.topology)

    @property
    def cause(self) -> Failure | None:
        """The failure that ended the run."""
        if not self.failures:
            return None
        if self.topology.elastic:
            return self.failures[-1]
        found = first_failure.first(self.failures, self._ended_well)
        if found.origin is not Origin.PEER:
            return found
        return next((each for each in self.failures if self._is_outlived(each)), found)

    def _is_outlived(self, failed: Failure) -> bool:
        """Return whether a replica failed by itself in a world that another one is still in."""
        others = (each for each in self.replicas.values() if each.number != failed.replica.number)
        return failed.origin is Origin.OWN and any(
            each.running and moment(each.running_since) <= failed.finished for each in others
        )

    @property
    def silent(self) -> list[Replica]:
        """Those that went on while all others failed for want of a peer: one may be hanging."""
        cause = self.cause
        if cause is None or cause.origin is not Origin.PEER or self.topology.elastic:
            return []
        failed = {each.replica.number for each in self.failures}
        return [each for number, each in self.replicas.items() if number not in failed]

    @property
    def failure(self) -> str | None:
        """What ended the run, in words; None while nothing failed."""
        if len(silent := self.silent) != 1:
            return None if self.cause is None else str(self.cause)
        [one] = silent
        return f"{one.ranks} ({one.name}) did not answer its peers: {self.cause}"

    @property
    def hanging(self) -> list[Replica]:
        """Of a run that got nowhere, those that still run; all of them, where none is suspected."""
        return [each for each in self.silent or self.replicas.values() if each.active]

    @property
    def followers(self) -> int:
        """How many other replicas failed with the cause or after it."""
        cause = self.cause
        if cause is None:
            return 0
        after = {each.replica.number for each in self.failures if each.finished >= cause.finished}
        return len(after - {cause.replica.number})

    @property
    def failed_init(self) -> FailedInit | None:
        """Of the first replica that could not begin, the init container that failed."""
        return self._failed_inits[min(self._failed_inits)] if self._failed_inits else None

    @property
    def cured_by_a_retry(self) -> str | None:
        """What the cluster did that ended the run; None when the run failed by itself."""
        disruption = self._disrupted_by
        if disruption is None or not disruption.brought_about(self.cause):
            return None
        return disruption.text

    @property
    def _disrupted_by(self) -> Disruption | None:
        return self.disruption or self.lost_node

    @property
    def cause_may_be_to_come(self) -> bool:
        """Whether all that failed so far followed another one, which has not been seen yet."""
        cause = self.cause
        return cause is not None and self._disrupted_by is None and cause.origin is not Origin.OWN

    @property
    def missed_another_node(self) -> bool:
        """Whether peers were missed that are on another node, which may have been lost."""
        cause = self.cause
        return cause is not None and cause.origin is Origin.PEER and len(self.nodes) > 1

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on as far as the operator knows."""
        return not self.gone and {self.condition("Failed"), self.condition("Succeeded")} == {None}

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that its replicas are on."""
        found = {each.pod["spec"].get("nodeName") for each in self.replicas.values()}
        return found - {None}

    def see_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Take in the jobs of this name: this one, another one, or none."""
        mine = [job for job in jobs if job["metadata"]["uid"] == self.uid]
        self.gone = not mine
        if mine:
            self.job = mine[-1]

    def see_pods(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Take in pods; what was known of others is kept."""
        for pod in pods:
            if is_of(pod, self.uid):
                self._pods[pod["metadata"]["uid"]] = pod
                self._see_disruption(pod)
        # Also one whose pod was lost and is to be made again has started.
        seen = self.replicas
        self._started |= {number for number, each in seen.items() if each.started}
        self._see_failed_inits(seen)
        known = {each.exit.container_id for each in (*self.failures, *self._ended_well)}
        new = [
            Failure(replica, ended)
            for replica in seen.values()
            for ended in replica.exits
            if ended.container_id not in known
        ]
        for each in sorted(new, key=lambda each: each.finished):
            (self.failures if each.exit.code != 0 else self._ended_well).append(each)

    def _see_failed_inits(self, seen: Mapping[int, Replica]) -> None:
        for number, replica in seen.items():
            failed = replica.failed_init or self._failed_inits.pop(number, None)
            if failed is None or replica.started or replica.has_done(failed.container):
                continue
            self._failed_inits[number] = failed

    def _see_disruption(self, pod: Mapping[str, Any]) -> None:
        """Note what took a pod away, unless a failure did: then the operator clears up."""
        if self.disruption is not None or (self.failures and not self.topology.elastic):
            return
        self.disruption = disruption(pod)
        is_running = is_replica(pod) and Replica(pod, self.topology).running
        if self.disruption is None and is_running and self.condition("Succeeded") is None:
            self.disruption = deleted(pod)

    def see_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Take in the cluster's nodes."""
        left = (each.pod for each in self.replicas.values() if each.active)
        self.lost_node = first_failure.lost_node(left, nodes)

    def see_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Take in Kubernetes' events of the job and its pods."""
        self.growth = autoscaler.growth(self._of_waiting_pods(events))
        for event in events:
            if event.get("reason") == "FailedCreatePod":
                message = str(event.get("message", ""))
                if any(word in message for word in _REFUSED) and _OVER_QUOTA not in message:
                    self.refusal = message

    def lasted(self, what: str, elapsed: float, *, holds: bool = True) -> float:
        """Return for how many seconds a condition has been judged to hold; 0 where it does not.

        Args:
            what: Its name.
            elapsed: Seconds since the job was submitted.
            holds: Whether it holds now.
        """
        if not holds:
            self._since.pop(what, None)
            return 0.0
        return elapsed - self._since.setdefault(what, elapsed)

    @property
    def all_started(self) -> bool:
        """Whether every replica's program has run."""
        return len(self._started) == self.topology.replicas

    @property
    def status(self) -> str:
        """Where its pods are, in one line."""
        topology = self.topology
        counts = Counter(replica.stage for replica in self.replicas.values())
        if not counts:
            return f"submitted; {counted(topology.replicas, 'pod')} to be created"
        if (missing := topology.replicas - counts.total()) > 0:
            counts["to be created"] = missing
        if self.growth is not None and self.growth.coming and _WAITING in counts:
            counts[_BEING_MADE] = counts.pop(_WAITING)
        stages = ", ".join(f"{count} {stage}" for stage, count in counts.items())
        line = counted(topology.world_size, "rank")
        if topology.processes > 1:
            line += f", {topology.processes} in each pod"
        lost = f"; {self.lost_node.text}" if self.lost_node is not None else ""
        return f"{line}: {stages}{lost}"

    def condition(self, type_: str) -> str | None:
        """Return the message of a condition of the job that holds; None where it does not."""
        for condition in (self.job.get("status") or {}).get("conditions") or []:
            if condition["type"] == type_ and condition["status"] == "True":
                return str(condition.get("message", ""))
        return None

    def _of_waiting_pods(self, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return those of `events` that are about a pod without a node."""
        waiting = {each.uid for each in self.replicas.values() if each.unschedulable is not None}
        return [event for event in events if event["involvedObject"].get("uid") in waiting]


_WAITING = "waiting for a node"
_BEING_MADE = "waiting for a node that is being made"
_REFUSED = ("is forbidden", "denied the request", "is invalid")
_OVER_QUOTA = "exceeded quota"
"""What other jobs' pods give back when they end."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 pod" or "2 pods"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
