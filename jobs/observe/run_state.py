"""The observed state of a run: its pods, failures, disruptions and progress."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from clusters.cloud_reports import Growth, RefusedPulls
from jobs.api.lines import Line, moment
from jobs.model.pytorchjob import Topology, has_ended, is_of, is_replica, is_suspended
from jobs.observe import failures
from jobs.observe.exits import Exit
from jobs.observe.failures import Disruption, Failure, Origin, disruption
from jobs.observe.gpus import Gpu, GpuUse
from jobs.observe.progress import Paces, Progress
from jobs.observe.replica import Replica
from jobs.records.events import event_in

_STILLNESS = "stillness of {}"
_FIRST = timedelta(seconds=1)  # nodes' clocks differ by less
_RECOVERY = timedelta(minutes=2)  # a disrupted pod may train until its grace period is over
_TRAINING = tuple(f'"event": "{name}"' for name in ("step", "epoch", "metrics"))


@dataclass
class RunState:
    """The state of one run so far: its PyTorchJob, and what happened to it."""

    job: Mapping[str, Any]
    pulls: RefusedPulls | None = None  # image pulls that were refused but may still be authorised
    failures: list[Failure] = field(default_factory=list)  # in the order observed
    disruptions: dict[str, Disruption] = field(default_factory=dict)  # by uid of the healthy pod
    lost_node: Disruption | None = None  # with a replica that has not ended
    shortage: str | None = None  # why no node could ever hold a waiting pod
    refusal: str | None = None  # why pods are not admitted
    growth: Growth | None = None  # the autoscaler's latest report on waiting pods
    setbacks: Sequence[str] = ()  # why it could add no nodes
    job_deleted: bool = False  # whether the job was deleted, but not by Slipway
    is_old: bool = False  # whether it was adopted after its start timeout
    queued: str | None = None  # Kueue's reason, while the job is suspended
    gpu_use: GpuUse = field(default_factory=GpuUse)
    refused_until: float = 0.0  # seconds until the latest refused pull that may be authorised
    replicas: dict[int, Replica] = field(default_factory=dict)  # the latest, even if deleted
    held: dict[int, str] = field(default_factory=dict)  # the shell command, by replica number
    stalled: Sequence[Replica] | None = None  # those that stalled first; None if none has stalled
    _since: dict[str, float] = field(default_factory=dict)  # when conditions began, for `lasted`
    _last_signs: dict[int, str] = field(default_factory=dict)  # time of each replica's last line
    _trained: Counter[int] = field(default_factory=Counter)  # number of training events by replica
    _last_trained: str = ""  # time of the last training event of any replica
    _seen: dict[str, Replica] = field(default_factory=dict)  # replicas of all pods, by uid
    _stopped: set[str] = field(default_factory=set)  # uids of pods that a suspension stops
    _dropped: set[str] = field(default_factory=set)  # uids of pods that were deleted for a stall
    _started: set[int] = field(default_factory=set)
    # Each replica's latest failure, which its pod no longer shows during a retry.
    _failed_inits: dict[int, Failure] = field(default_factory=dict)
    _ended_well: list[Failure] = field(default_factory=list)  # exits with code 0

    def __post_init__(self) -> None:
        self.uid = str(self.job["metadata"]["uid"])  # another uid means another run
        self.topology = Topology.of_object(self.job)
        self.progress = Progress(self.topology.world_size)
        self.paces = Paces(self.topology.world_size)

    @property
    def cause(self) -> Failure | None:
        """The failure that ended the run, or None if nothing failed."""
        if not self.failures:
            return None
        if self.topology.elastic:
            return self.failures[-1]
        first = failures.first(self.failures, self._ended_well)
        if first.origin is not Origin.PEER:
            return first
        return next((each for each in self.failures if self._is_outlived(each)), first)

    def _is_outlived(self, failed: Failure) -> bool:
        """Return whether a replica failed on its own while another in its world kept running."""
        others = (each for each in self.replicas.values() if each.number != failed.replica.number)
        return failed.origin is Origin.OWN and any(
            each.running and moment(each.running_since) <= failed.finished for each in others
        )

    @property
    def silent(self) -> list[Replica]:
        """The replicas that were still running when all others lost a peer; one may be hanging."""
        cause = self.cause
        if cause is None or cause.origin is not Origin.PEER or self.topology.elastic:
            return []
        failed = {each.replica.number for each in self.failures}
        return [each for number, each in self.replicas.items() if number not in failed]

    @property
    def failure(self) -> str | None:
        """A message about the failure that ended the run, or None if nothing failed."""
        if len(silent := self.silent) == 1:
            return f"{silent[0]} did not respond to its peers: {self.cause}"
        return None if self.cause is None else str(self.cause)

    @property
    def hanging(self) -> list[Replica]:
        """Replicas that are still running in a stuck run: only the suspects, if there are any."""
        suspected = self.silent or self.idle or [*(self.stalled or ()), *self.replicas.values()]
        return [each for each in {each.uid: each for each in suspected}.values() if each.active]

    @property
    def idle(self) -> list[Replica]:
        """The running replicas with a GPU that has been idle for too long."""
        uids = {uid for uid, _ in self.gpu_use.idle}
        return [each for each in self.replicas.values() if each.running and each.uid in uids]

    @property
    def followers(self) -> int:
        """The number of other replicas that failed at the same time as `cause`, or later."""
        cause = self.cause
        if cause is None:
            return 0
        after = {each.replica.number for each in self.failures if each.finished >= cause.finished}
        return len(after - {cause.replica.number})

    @property
    def failed_init(self) -> Failure | None:
        """The failed init container of the first replica that could not start."""
        return self._failed_inits[min(self._failed_inits)] if self._failed_inits else None

    @property
    def cured_by_a_retry(self) -> str | None:
        """The disruption by the cluster that ended the run, or None if it failed on its own."""
        lost, cause = [] if self.job_deleted else self._lasting_disruptions, self.cause
        return next((each.text for each in lost if each.brought_about(cause)), None)

    @property
    def _lasting_disruptions(self) -> list[Disruption]:
        """The disruptions that the run has not recovered from, latest first."""
        lost = [*reversed(self.disruptions.values()), self.lost_node]
        return [each for each in lost if each is not None and not self._is_past(each)]

    def _is_past(self, lost: Disruption) -> bool:
        """Return whether the run went on after a disruption, which then explains no later end."""
        latest = self.replicas[self._seen[lost.pod].number]
        is_replaced = latest.uid != lost.pod and latest.started
        if self._last_trained:
            trains = moment(self._last_trained) - lost.at > _RECOVERY
            return trains and (is_replaced or self.topology.elastic)
        return is_replaced and not has_ended(self.job)

    @property
    def cause_may_be_to_come(self) -> bool:
        """True if all failures so far result from a failure that has not been observed yet."""
        cause = self.cause
        return (
            cause is not None and not self._lasting_disruptions and cause.origin is not Origin.OWN
        )

    @property
    def all_succeeded(self) -> bool:
        """True if every replica's program exited with 0."""
        ends = [each.ended for each in self.replicas.values() if each.ended is not None]
        return [each.code for each in ends] == [0] * self.topology.replicas

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that the run's replicas are on."""
        return {each.node for each in self.replicas.values() if each.node is not None}

    def see_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Process a list of the jobs with this name: this job, a newer one, or neither."""
        mine = [job for job in jobs if job["metadata"]["uid"] == self.uid]
        self.job_deleted = not mine
        if mine:
            self.job = mine[-1]
        if is_suspended(self.job) and not self.job_deleted:
            # A suspension stops its pods, whose exits are not failures; new ones start later.
            stopped, queued = self._stopped | self._seen.keys(), self.queued
            vars(self).update(vars(RunState(self.job, self.pulls)))
            self._stopped, self.queued = stopped, queued

    def see_pods(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Process a list of pods; replicas whose pods are not listed keep their state."""
        if is_suspended(self.job):
            # The operator may create new pods before it marks the job as resumed.
            left = (pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"])
            self._stopped |= {str(each["uid"]) for each in left}
            return
        failed = () if self.topology.elastic else {each.replica.uid for each in self.failures}
        # After either, the operator itself deletes pods.
        is_over = bool(failed) or has_ended(self.job)
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if is_of(pod, self.uid) and is_replica(pod) and uid not in self._stopped:
                self._seen[uid] = replica = Replica(pod, self.topology)
                if uid not in {*failed, *self.disruptions, *self._dropped}:
                    lost = disruption(pod, is_running=replica.running and not is_over)
                    self.disruptions |= {} if lost is None else {uid: lost}
        by_age = sorted(self._seen.values(), key=lambda each: each.created)
        self.replicas = replicas = dict(sorted({each.number: each for each in by_age}.items()))
        # A replica whose pod was lost and will be replaced counts as started.
        self._started |= {number for number, each in replicas.items() if each.started}
        self._see_failed_inits(replicas)
        recorded = {each.exit.container_id for each in (*self.failures, *self._ended_well)}
        exits = [(replica, ended) for replica in replicas.values() for ended in replica.exits]
        new = [Failure(*each) for each in exits if each[1].container_id not in recorded]
        for each in sorted(new, key=lambda each: each.finished):
            (self.failures if each.exit.code != 0 else self._ended_well).append(each)

    def _see_failed_inits(self, replicas: Mapping[int, Replica]) -> None:
        for number, replica in replicas.items():
            if (failure := replica.failed_init) is not None:
                container, ended = failure
                self._failed_inits[number] = Failure(replica, ended, container)
            failed = self._failed_inits.get(number)
            if failed is not None and (replica.started or replica.has_done(failed.container)):
                del self._failed_inits[number]

    def see_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        left = (each.pod for each in self.replicas.values() if each.active)
        self.lost_node = failures.lost_node(left, nodes)

    def see_gpus(self, at: float, measured: Mapping[Gpu, float], least: float) -> None:
        """Process the utilization of GPUs, keyed by pod name and GPU; see `GpuUse.see`."""
        having = [each for each in self.replicas.values() if each.running and each.gpus]
        uids = {each.name: each.uid for each in having}
        by_uid = {(uids[pod], gpu): each for (pod, gpu), each in measured.items() if pod in uids}
        self.gpu_use.see(at, by_uid, least)

    def see_sign(self, printed: tuple[int, Sequence[Line]]) -> None:
        """Process lines that a replica printed, which show that its ranks may still be working."""
        number, lines = printed
        for what in ("silence", _STILLNESS.format(number)):
            self._since.pop(what, None)
        for line in lines:
            self._last_signs[number] = line.stamp
            self.paces.see(line.text)
            if any(event in line.text for event in _TRAINING):
                self._trained[number] += 1
                self._last_trained = max(self._last_trained, line.stamp)

    @cached_property
    def may_be_held(self) -> bool:
        """True if the job keeps a failed rank's pod running for a while (`onFailure.hold`)."""
        return "SLIPWAY_HOLD" in str(self.job["spec"])

    def see_held(self, printed: tuple[int, str]) -> None:
        """Record that a replica's program failed, although its container is kept running."""
        replica, event = self.replicas.get(printed[0]), event_in(printed[1])
        ended = event.get("terminated", {})
        # Any program may print such a line.
        is_valid = self.may_be_held and type(ended.get("exitCode")) is int
        if replica is not None and replica.running and is_valid:
            own = {"startedAt": replica.running_since, "containerID": replica.container_id}
            failed = Failure(replica, Exit({**ended, **own}))
            self.failures.append(failed)
            shell = f"`make shell JOB={self.job['metadata']['name']} RANK={failed.rank}`"
            self.held[replica.number] = f"{shell} until {event.get('until')}"

    def see_stillness(self, elapsed: float, limit: float, loading: float) -> bool:
        """Return whether a rank printed nothing for `limit` seconds; set `stalled` accordingly.

        Until any rank prints a line, programs may take `loading` seconds to import packages. A rank
        that has never reported training may just be busy, so its silence counts only if all ranks
        are silent. If one rank clearly stalled first, `stalled` is only that one.
        """
        quiet, others = list[Replica](), list[float]()
        limit = limit if self._last_signs else max(limit, loading)
        for each in self.replicas.values():
            what = _STILLNESS.format(each.number)
            if (lasted := self.lasted(what, elapsed, holds=each.running)) >= limit:
                quiet.append(each)
            elif each.running:
                others.append(lasted)
            else:
                del self._trained[each.number]
        if not quiet or max(others, default=0) > limit / 2:  # the others may be falling silent, too
            return False
        trained = [each for each in quiet if self._trained[each.number] > 1]
        trained.sort(key=lambda each: self._last_signs[each.number])
        if others:
            self.stalled = trained or None
        elif len(quiet) == 1:
            self.stalled = quiet
        else:
            times = [moment(self._last_signs[each.number]) for each in trained[:2]]
            is_first = len(trained) == len(quiet) and times[1] - times[0] > _FIRST
            self.stalled = trained[:1] if is_first else []
        return self.stalled is not None

    def forget_stillness(self) -> None:
        """Start measuring stalls again, since the pods of stalled ranks were deleted."""
        self._dropped |= {each.uid for each in self.stalled or ()}
        self.stalled = None
        for number in self.replicas:
            self._since.pop(_STILLNESS.format(number), None)

    def lasted(self, what: str, elapsed: float, *, holds: bool = True) -> float:
        """Return for how many seconds the condition `what` has held, `elapsed` s into the run."""
        if not holds:
            self._since.pop(what, None)
            return 0.0
        return elapsed - self._since.setdefault(what, elapsed)

    @property
    def refused_pulls(self) -> list[Replica]:
        """The replicas waiting only for a registry that refuses pulls but may still allow them."""
        if (policy := self.pulls) is None:
            return []
        blocked = ((each, [end.reason for end in each.blocked]) for each in self.replicas.values())
        return [each for each, why in blocked if why and all(map(policy.may_be_admitted, why))]

    @property
    def all_started(self) -> bool:
        """True if every replica's program has started."""
        # A replica that an elastic run lost before it was adopted had started, too.
        goes_on = self.is_old and self.topology.elastic and bool(self._started)
        return goes_on or len(self._started) == self.topology.replicas

    @property
    def status(self) -> str:
        """The stages that the run's pods are in, as one line."""
        topology = self.topology
        if is_suspended(self.job):
            why = "until its `runPolicy.suspend` is unset" if self.queued is None else self.queued
            return f"{counted(topology.world_size, 'rank')}: suspended, {why}"
        counts = Counter(replica.stage for replica in self.replicas.values())
        if not counts:
            return f"submitted; {counted(topology.replicas, 'pod')} to be created"
        if (missing := topology.replicas - counts.total()) > 0:
            counts["to be created"] = missing
        if self.growth is not None and self.growth.coming and "waiting for a node" in counts:
            counts["waiting for a node that is being added"] = counts.pop("waiting for a node")
        stages = ", ".join(f"{count} {stage}" for stage, count in counts.items())
        in_each = f", {topology.processes} in each pod" if topology.processes > 1 else ""
        lost = f"; {self.lost_node.text}" if self.lost_node is not None else ""
        return f"{counted(topology.world_size, 'rank')}{in_each}: {stages}{lost}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 pod" or "2 pods"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
