"""What a run has been seen to do so far, and whether that is its end. Pure.

It is told what the API server shows and answers what to say and when to stop; it asks nobody.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from clusters import autoscaler
from clusters.autoscaler import Growth
from jobs.topology import Topology
from jobs.watch import causes
from jobs.watch.causes import Failure, Origin
from jobs.watch.disruption import Disruption, deleted, disruption, lost_node
from jobs.watch.progress import Progress
from jobs.watch.replicas import FailedInit, Replica, is_of, is_replica, moment, replicas
from jobs.watch.results import End
from jobs.watch.room import Shortage

_STRAGGLERS_SECONDS = 30
"""The operator calls a job Succeeded once rank 0 is done; so long the others may still take."""
_OPERATOR_SECONDS = 60
"""The operator acts on a pod that failed at once; it may have to be started again before."""
_DEADLINE_WORDS = "active longer than specified deadline"
"""https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go"""


@dataclass(frozen=True)
class Limits:
    """How long a run may take, in seconds since it was submitted."""

    total: float
    start: float


@dataclass
class Tracker:
    """One run as it was seen so far.

    Args:
        job: The PyTorchJob as it was submitted or adopted.
    """

    job: Mapping[str, Any]
    failures: list[Failure] = field(default_factory=list)
    """In the order in which they were seen."""
    disruption: Disruption | None = None
    """How the cluster took a pod away before anything failed by itself."""
    shortage: Shortage | None = None
    """What the pods that wait for a node lack."""
    refusal: str | None = None
    """Why pods are not admitted."""
    growth: Growth | None = None
    """What the autoscaler said last of those pods; None without one."""
    setbacks: Sequence[str] = ()
    """Why it could make no nodes."""
    gone: bool = False
    _pods: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _started: set[int] = field(default_factory=set)
    _failed_inits: dict[int, FailedInit] = field(default_factory=dict)
    """Each replica's latest: its pod no longer tells of it while it is tried once more."""
    _ended_well: list[Failure] = field(default_factory=list)
    """Exits with code 0, in the order in which they were seen."""
    _succeeded_at: float | None = None
    _failed_at: float | None = None

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
        found = causes.first(self.failures, self._ended_well)
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
    def hanging(self) -> list[Replica]:
        """Of a run that got nowhere, those that still run; all of them, where none is suspected."""
        return [each for each in self.silent or self.replicas.values() if each.active]

    def is_stuck(self, end: End) -> bool:
        """Return whether some of its ranks went on without getting anywhere."""
        return end.state == "TimedOut" or (end.state == "Failed" and len(self.silent) > 0)

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
        if self.disruption is None or not self.disruption.brought_about(self.cause):
            return None
        return self.disruption.text

    @property
    def cause_may_be_to_come(self) -> bool:
        """Whether all that failed so far followed another one, which has not been seen yet."""
        cause = self.cause
        return cause is not None and self.disruption is None and cause.origin is not Origin.OWN

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
        if self.disruption is None and is_running and self._condition("Succeeded") is None:
            self.disruption = deleted(pod)

    def see_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Take in the cluster's nodes after a failure: ranks notice a lost one before it does."""
        if self.disruption is None:
            self.disruption = lost_node((each.pod for each in self.replicas.values()), nodes)

    def see_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Take in Kubernetes' events of the job and its pods."""
        self.growth = autoscaler.growth(self._of_waiting_pods(events))
        for event in events:
            if event.get("reason") == "FailedCreatePod":
                message = str(event.get("message", ""))
                if any(word in message for word in _REFUSED) and _OVER_QUOTA not in message:
                    self.refusal = message

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
            return f"submitted; {_counted(topology.replicas, 'pod')} to be created"
        if (missing := topology.replicas - counts.total()) > 0:
            counts["to be created"] = missing
        if self.growth is not None and self.growth.coming and _WAITING in counts:
            counts[_BEING_MADE] = counts.pop(_WAITING)
        stages = ", ".join(f"{count} {stage}" for stage, count in counts.items())
        line = _counted(topology.world_size, "rank")
        if topology.processes > 1:
            line += f", {topology.processes} in each pod"
        return f"{line}: {stages}"

    def end(self, elapsed: float, limits: Limits) -> End | None:
        """Return the run's end, None while there is none.

        Args:
            elapsed: Seconds since the job was submitted.
            limits: Of the run.
        """
        if self.gone:
            return End("Failed", "the PyTorchJob was deleted while it ran, not by Slipway")
        if (message := self._condition("Failed")) is not None:
            return self._failed(message, limits)
        if (message := self._condition("Succeeded")) is not None:
            return self._succeeded(message, elapsed)
        return self._never_starts() or self._unnoticed(elapsed) or self._too_late(elapsed, limits)

    def _unnoticed(self, elapsed: float) -> End | None:
        """Return the end of a run of which a pod failed, and no operator acts on it.

        A node that is short of something evicts the operator, too.
        """
        failed = [each for each in self.replicas.values() if each.has_failed and each.there]
        if not failed or self.topology.elastic:
            self._failed_at = None
            return None
        if self._failed_at is None:
            self._failed_at = elapsed
        if elapsed - self._failed_at < _OPERATOR_SECONDS:
            return None
        why = f"pod {failed[0].name} failed" if self.cause is None else self._why()
        reason = f"{why}; the training operator did not act on that for {_OPERATOR_SECONDS} s"
        return End("Failed", reason, _SEE_OPERATOR)

    def _too_late(self, elapsed: float, limits: Limits) -> End | None:
        if elapsed > limits.total:
            reason = f"not done after {limits.total:g} s; {self.status}"
            return End("TimedOut", reason, _RAISE_TIMEOUT)
        if elapsed > limits.start and not self.all_started:
            return self._not_started_in_time(limits.start)
        return None

    def _condition(self, type_: str) -> str | None:
        for condition in (self.job.get("status") or {}).get("conditions") or []:
            if condition["type"] == type_ and condition["status"] == "True":
                return str(condition.get("message", ""))
        return None

    def _failed(self, message: str, limits: Limits) -> End:
        if _DEADLINE_WORDS in message:
            return End("TimedOut", f"not done after {limits.total:g} s: {message}", _RAISE_TIMEOUT)
        if self.cause is None and (init := self.failed_init) is not None:
            reason = f"{init.ranks} ({init.pod}): container {init.container} {init.exit}"
            return End("CannotStart", reason)
        return End("Failed", message if self.cause is None else self._why())

    def _why(self) -> str:
        if len(silent := self.silent) != 1:
            return str(self.cause)
        [one] = silent
        return f"{one.ranks} ({one.name}) did not answer its peers: {self.cause}"

    def _succeeded(self, message: str, elapsed: float) -> End | None:
        """Judge every replica by itself: the operator asks for the Master, or for any Worker."""
        if self.topology.elastic:
            return self._elastic_succeeded(message, elapsed)
        ends = {number: replica.ended for number, replica in self.replicas.items()}
        if any(ended is not None and ended.code != 0 for ended in ends.values()):
            return End("Failed", self._failed_beside_rank_0())
        missing = [number for number in range(self.topology.replicas) if ends.get(number) is None]
        if not missing:
            return End("Succeeded", message)
        if self._may_straggle(elapsed):
            return None
        cause = self.cause
        if cause is not None and cause.replica.number in missing:
            return End("Failed", self._failed_beside_rank_0())
        listed = ", ".join(self.topology.ranks(number) for number in missing)
        reason = f"{listed} did not end within 30 s after rank 0 succeeded; {self.status}"
        return End("Failed", reason)

    def _failed_beside_rank_0(self) -> str:
        cause = self.cause
        if cause is not None and cause.exit.code == 0:
            return f"{cause}, and took {_counted(self.followers, 'replica')} along"
        return f"{cause}, although rank 0 succeeded"

    def _elastic_succeeded(self, message: str, elapsed: float) -> End | None:
        """Let those that were replaced at the end go: what they would do has been done."""
        running = any(replica.running for replica in self.replicas.values())
        return None if running and self._may_straggle(elapsed) else End("Succeeded", message)

    def _may_straggle(self, elapsed: float) -> bool:
        """Return whether the job's success was first seen less than 30 s ago."""
        if self._succeeded_at is None:
            self._succeeded_at = elapsed
        return elapsed - self._succeeded_at < _STRAGGLERS_SECONDS

    def _never_starts(self) -> End | None:
        for replica in self.replicas.values():
            who = f"{replica.ranks} ({replica.name})"
            if replica.cannot_start is not None:
                return End("CannotStart", f"{who}: {replica.cannot_start}", _SEE_IMAGE)
            if replica.crash_loop is not None and self._is_hopeless(replica):
                reason = f"{who}: container {replica.crash_loop} fails again and again"
                return End("CannotStart", reason)
        return self._is_refused()

    def _is_refused(self) -> End | None:
        """Return the end of a run whose pods can never be."""
        if self.all_started:
            return None
        if self.refusal is not None:
            return End("CannotStart", f"its pods are refused: {self.refusal}", _SEE_REFUSAL)
        is_growing = self.growth is not None and self.growth.coming
        if self.shortage is not None and self.shortage.final and not is_growing:
            return End("CannotStart", f"there is never room: {self.shortage.text}", _ASK_LESS)
        return None

    def _of_waiting_pods(self, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return those of `events` that are about a pod that has no node."""
        waiting = {each.uid for each in self.replicas.values() if each.unschedulable is not None}
        return [event for event in events if event["involvedObject"].get("uid") in waiting]

    def _is_hopeless(self, replica: Replica) -> bool:
        """Return whether a container that fails again and again does so before any training.

        One's own programs need not tell of steps; they have the restarts that their job allows.
        """
        allowed = self.job["spec"].get("runPolicy", {}).get("backoffLimit", 0)
        used = sum(each.restarts for each in self.replicas.values())
        return not self.progress.has_stepped and (not replica.started or used >= allowed)

    def _not_started_in_time(self, limit: float) -> End:
        line = f"not all ranks started within {limit:g} s; {self.status}"
        reasons = {replica.unschedulable for replica in self.replicas.values()} - {None}
        told = [] if self.shortage is None else [self.shortage.text]
        told += [] if self.growth is None else [str(self.growth)]
        told += self.setbacks
        reason = "; ".join([line, *told, *sorted(str(reason) for reason in reasons)])
        return End("CannotStart", reason, _ASK_LESS)


_WAITING = "waiting for a node"
_BEING_MADE = "waiting for a node that is being made"
_REFUSED = ("is forbidden", "denied the request", "is invalid")
_OVER_QUOTA = "exceeded quota"
"""What others' pods give back when they end."""
_SEE_REFUSAL = "change what the message names, in the job or in the cluster"
_SEE_OPERATOR = "see why it does not run with `kubectl get pods,events --all-namespaces`"
_SEE_IMAGE = "see that the job's `image` exists and that its nodes may pull it"
_ASK_LESS = "ask for less `cpu`, `memory` or `workers`, or raise `startTimeout`"
_RAISE_TIMEOUT = "raise the job's `timeout`, or give it less to do"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
