"""What a run has been seen to do so far, and whether that is its end. Pure.

It is told what the API server shows and answers what to say and when to stop; it asks nobody.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jobs.replicas import Exit, Replica, replicas
from jobs.results import State, summary
from jobs.topology import Topology, ranks_of

_STRAGGLERS_SECONDS = 30
"""The operator calls a job Succeeded once rank 0 is done; so long the others may still take."""
_DEADLINE_WORDS = "active longer than specified deadline"
"""https://github.com/kubeflow/trainer/blob/v1.9.3/pkg/controller.v1/common/job.go"""


@dataclass(frozen=True)
class Limits:
    """How long a run may take, in seconds since it was submitted."""

    total: float
    start: float


@dataclass(frozen=True)
class End:
    """How a run ended, why in one line, and what a person may do about it."""

    state: State
    reason: str
    advice: str = "mend what failed"


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

    def __str__(self) -> str:
        """Name the rank and what happened to it."""
        return f"rank {self.rank} ({self.replica.name}) {self.exit}"


@dataclass
class Tracker:
    """One run as it was seen so far.

    Args:
        job: The PyTorchJob as it was submitted or adopted.
    """

    job: Mapping[str, Any]
    failures: list[Failure] = field(default_factory=list)
    epoch: Mapping[str, Any] | None = None
    gone: bool = False
    _pods: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _started: set[int] = field(default_factory=set)
    _stepped: bool = False
    _succeeded_at: float | None = None

    @property
    def uid(self) -> str:
        """The job's identity: another job of the same name is not this run."""
        return str(self.job["metadata"]["uid"])

    @cached_property
    def topology(self) -> Topology:
        """What the job consists of."""
        return Topology.of(self.job)

    @property
    def replicas(self) -> dict[int, Replica]:
        """Each replica as it was seen last, also after its pod has gone."""
        return replicas(self._pods.values(), self.topology)

    @property
    def cause(self) -> Failure | None:
        """The failure that ended the run: the first, or the one that elasticity did not bear."""
        if not self.failures:
            return None
        return self.failures[-1 if self.topology.elastic else 0]

    def see_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Take in the jobs of this name: this one, another one, or none."""
        mine = [job for job in jobs if job["metadata"]["uid"] == self.uid]
        self.gone = not mine
        if mine:
            self.job = mine[-1]

    def see_pods(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Take in pods; what was known of others is kept."""
        for pod in pods:
            owners = pod["metadata"].get("ownerReferences") or []
            if any(owner["uid"] == self.uid for owner in owners):
                self._pods[pod["metadata"]["uid"]] = pod
        # Also one whose pod was lost and is to be made again has started.
        seen = self.replicas
        self._started |= {number for number, each in seen.items() if each.started}
        known = {failure.exit.container_id for failure in self.failures}
        new = [
            Failure(replica, ended)
            for replica in seen.values()
            for ended in replica.exits
            if ended.code != 0 and ended.container_id not in known
        ]
        # The kubelet's clock has whole seconds; among equals whoever was seen first stays first.
        self.failures += sorted(new, key=lambda failure: failure.exit.finished)

    def see_line(self, line: str) -> None:
        """Take in a line of replica 0's log: it may be the event of a step or an epoch's end."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if not isinstance(event, dict) or event.get("event") not in {"step", "epoch"}:
            return
        self._stepped = True
        if event["event"] == "step":
            return
        # A log that broke off is read again from its beginning.
        number, known = event.get("epoch"), -1 if self.epoch is None else self.epoch["epoch"]
        if isinstance(number, int) and number > known:
            self.epoch = event

    @property
    def all_started(self) -> bool:
        """Whether every replica's program has run."""
        return len(self._started) == self.topology.replicas

    @property
    def status(self) -> str:
        """Where the run is, in one line."""
        topology = self.topology
        counts = Counter(replica.stage for replica in self.replicas.values())
        if not counts:
            return f"submitted; {topology.replicas} pods are to be created"
        if (missing := topology.replicas - counts.total()) > 0:
            counts["to be created"] = missing
        stages = ", ".join(f"{count} {stage}" for stage, count in counts.items())
        line = f"{topology.world_size} ranks"
        if topology.processes > 1:
            line += f", {topology.processes} in each pod"
        line = f"{line}: {stages}"
        return line if self.epoch is None else f"{line}; {told(self.epoch)}"

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
        return self._never_starts() or self._too_late(elapsed, limits)

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
        return End("Failed", message if self.cause is None else str(self.cause))

    def _succeeded(self, message: str, elapsed: float) -> End | None:
        """Judge every replica by itself: the operator asks for the Master, or for any Worker."""
        if self.topology.elastic:
            return self._elastic_succeeded(message, elapsed)
        ends = {number: replica.ended for number, replica in self.replicas.items()}
        if any(ended is not None and ended.code != 0 for ended in ends.values()):
            return End("Failed", f"{self.failures[0]}, although rank 0 succeeded")
        missing = [number for number in range(self.topology.replicas) if ends.get(number) is None]
        if not missing:
            return End("Succeeded", message)
        if self._may_straggle(elapsed):
            return None
        listed = ", ".join(self.topology.ranks(number) for number in missing)
        reason = f"{listed} did not end within 30 s after rank 0 succeeded; {self.status}"
        return End("Failed", reason)

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
        return None

    def _is_hopeless(self, replica: Replica) -> bool:
        """Return whether a container that fails again and again does so before any training.

        One's own programs need not tell of steps; they have the restarts that their job allows.
        """
        allowed = self.job["spec"].get("runPolicy", {}).get("backoffLimit", 0)
        used = sum(each.restarts for each in self.replicas.values())
        return not self._stepped and (not replica.started or used >= allowed)

    def _not_started_in_time(self, limit: float) -> End:
        line = f"not all ranks started within {limit:g} s; {self.status}"
        reasons = {replica.unschedulable for replica in self.replicas.values()} - {None}
        reason = "; ".join([line, *sorted(str(reason) for reason in reasons)])
        return End("CannotStart", reason, _ASK_LESS)


_SEE_IMAGE = "see that the job's `image` exists and that its nodes may pull it"
_ASK_LESS = "ask for less `cpu`, `memory` or `workers`, or raise `startTimeout`"
_RAISE_TIMEOUT = "raise the job's `timeout`, or give it less to do"


def told(epoch: Mapping[str, Any]) -> str:
    """Return the event of an epoch's end in one line."""
    parts = [f"epoch {epoch.get('epoch')}"]
    for key, form in _EPOCH.items():
        value = epoch.get(key)
        if isinstance(value, int | float):
            parts.append(form.format(value))
    return ", ".join(parts)


_EPOCH = {
    "loss": "loss {:.4f}",
    "accuracy": "accuracy {:.4f}",
    "samples_per_second": "{:,.0f} samples/s on each rank",
    "seconds": "{:.1f} s",
}
