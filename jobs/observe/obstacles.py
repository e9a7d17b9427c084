"""Poll a cluster for obstacles that keep a job's pods from starting."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from operator import add
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from clusters import cloud_reports
from core.fields import gibibytes
from core.kube import REQUEST_ERRORS, api_message
from core.manifests import condition
from jobs.api.client import JobApi, Object
from jobs.model.pytorchjob import QUEUE_LABEL, is_suspended
from jobs.observe.outcome import warnings
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState

_EVENTS_SECONDS, _NODES_SECONDS = 2.0, 5.0
_GROWTH_SECONDS = 60.0  # the most that an autoscaler takes to respond to a pod, by its FAQ
_REFUSED = ("is forbidden", "denied the request", "is invalid")

Amounts = dict[str, Decimal]
_BYTES = frozenset({"memory", "ephemeral-storage"})


@dataclass
class Obstacles:
    """The obstacles to one job's pods; `warn` may receive the same message repeatedly."""

    api: JobApi
    run: RunState
    warn: Callable[[str], None]
    _unplaced: dict[str, float] = field(default_factory=dict)  # when first seen, by pod uid
    _led_on: set[str] = field(default_factory=set)  # pod uids
    _events_at: float = 0.0
    _room_at: float = 0.0
    _nodes_at: float = 0.0

    def look(self) -> None:
        """Warn about obstacles, and record them in the run for the verdict."""
        now, run = time.monotonic(), self.run
        if is_suspended(run.job):
            if now - self._events_at >= _EVENTS_SECONDS:
                self._events_at = now
                try:
                    run.queued = queued(self.api.workloads(run.uid))
                except REQUEST_ERRORS:  # Kueue is there, but not every account may ask it.
                    queue = run.job["metadata"].get("labels", {}).get(QUEUE_LABEL)
                    run.queued = run.queued or (queue and f"in the Kueue queue {queue}")
            return
        if now - self._nodes_at >= _NODES_SECONDS:
            self._nodes_at = now
            self.see_nodes(_NODES_SECONDS / 2)
        self._lead_on()
        if run.all_started or now - self._events_at < _EVENTS_SECONDS:
            return
        self._events_at = now
        events = self._events(_EVENTS_SECONDS / 2)
        see_events(run, events)
        # Binding a volume, or deleting the pods that are taking up the space, may take 20 s.
        for warning in warnings(self._lasting(events, 20.0)):
            self.warn(warning)
        if run.pulls is not None and run.refused_pulls:
            self.warn(f"{run.refused_pulls[0]}: {run.pulls.advice}")
        if run.growth is not None and not run.growth.coming:
            self.warn(cloud_reports.explained(str(run.growth)))
        waiting = [each for each in run.replicas.values() if each.unschedulable is not None]
        if waiting and now - self._room_at >= 10.0:
            self._room_at = now
            # An account without access to nodes still sees the scheduler's events.
            with suppress(*REQUEST_ERRORS):
                self._see_room(waiting)

    def _lead_on(self) -> None:
        """Let Workers start even if the Master's pod finished before they resolved its name.

        The name then resolves to the Worker itself, which satisfies the operator's init container.
        """
        run, master = self.run, self.run.replicas.get(0)
        if run.all_started or master is None or master.stage != "done":
            return
        for each in run.replicas.values():
            waits = each.to_come and each.stage == "waiting for rank 0"
            if waits and each.uid not in self._led_on:
                self._led_on.add(each.uid)
                try:
                    self.api.stand_in(each.pod, master.name)
                except REQUEST_ERRORS as error:
                    lacking = f"{api_message(error)} (for access, see docs/existing-cluster.md)"
                    self.warn(f"{each} is waiting for rank 0, which has finished: {lacking}")

    def _see_room(self, waiting: Sequence[Replica]) -> None:
        """Record why no node could ever hold these replicas, or why the autoscaler adds no node."""
        if (report := self.api.autoscaler_report()) is not None:
            self.run.setbacks = cloud_reports.setbacks(*report)
            for setback in self.run.setbacks:
                self.warn(f"the cluster's autoscaler is not adding a node: {setback}")
            return
        nodes = self.api.nodes(_NODES_SECONDS)
        # A cloud may have an autoscaler that tells of nothing but the pods, and only later.
        is_of_a_cloud = any(node.get("spec", {}).get("providerID") for node in nodes)
        until = time.monotonic() - (_GROWTH_SECONDS if is_of_a_cloud else 0)
        late = (each for each in waiting if self._unplaced[each.uid] <= until)
        lacks = [(each, why) for each in late if (why := never_fits(each.pod, nodes)) is not None]
        self.run.shortage = "{} does not fit on any node: {}".format(*lacks[0]) if lacks else None

    def _lasting(self, events: Iterable[Object], seconds: float) -> Iterator[Object]:
        """Yield `events`, but scheduling failures only of pods without a node for `seconds`."""
        now = time.monotonic()
        unplaced = {each.uid for each in self.run.replicas.values() if each.unschedulable}
        self._unplaced = {uid: self._unplaced.get(uid, now) for uid in unplaced}
        for event in events:
            since = self._unplaced.get(event["involvedObject"].get("uid"))
            lasts = since is not None and now - since >= seconds
            if lasts or event.get("reason") != "FailedScheduling":
                yield event

    def events(self) -> list[Object]:
        """Return the Kubernetes events that are relevant after a run has ended."""
        return list(self._lasting(self._events(), 0))

    def _events(self, seconds: float = 0) -> list[Object]:
        """Return the Kubernetes events for the job and its pods, or none if they can't be read."""
        uids = {self.run.uid, *(replica.uid for replica in self.run.replicas.values())}
        try:
            return self.api.events(uids, seconds)
        except REQUEST_ERRORS as error:
            self.warn(f"the events for {self.api.name} can't be read: {api_message(error)}")
            return []

    def see_nodes(self, seconds: float = 0) -> None:
        """Record a lost node in the run, if the account is allowed to read nodes."""
        if self.run.nodes:
            with suppress(*REQUEST_ERRORS):
                self.run.see_nodes(self.api.nodes(seconds))


def see_events(run: RunState, events: Sequence[Object]) -> None:
    """Record in `run` whether, according to `events`, nodes are being added or pods are refused."""
    waiting = {each.uid for each in run.replicas.values() if each.unschedulable is not None}
    about = [event for event in events if event["involvedObject"].get("uid") in waiting]
    run.growth = cloud_reports.growth(about)
    pods = [each.pod for each in run.replicas.values() if each.active]
    names = [f'"{each.name}"' for each in run.replicas.values()]
    failed = (event for event in events if event.get("reason") == "FailedCreatePod")
    for message in (str(event.get("message", "")) for event in failed):
        # Events last an hour: a pod that was refused may have been created since.
        came = len(names) == run.topology.replicas or any(name in message for name in names)
        if any(word in message for word in _REFUSED) and not (came or may_fit_quota(message, pods)):
            run.refusal = message


def queued(workloads: Sequence[Mapping[str, Any]]) -> str | None:
    """Describe the queue in which a job waits, and the reason; None if the job has no Workload."""
    if not workloads:
        return None
    queue = workloads[0]["spec"].get("queueName", "")
    statuses = (condition(workloads[0], each) for each in ("QuotaReserved", "Admitted"))
    lacks = (each.get("message", "") for each in statuses if each.get("status") == "False")
    return ": ".join(filter(None, (f"in the Kueue queue {queue}", next(lacks, ""))))


def never_fits(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why no node could hold a pod even if the node were empty, or None if one could."""
    needed = _requests(pod["spec"])
    selector = (pod["spec"].get("nodeSelector") or {}).items()
    own = [node for node in nodes if selector <= (node["metadata"].get("labels") or {}).items()]
    most = _merged(max, (_amounts(node["status"].get("allocatable")) for node in own))
    # What no node has, or has none of, may still appear: GPUs, once the device plugin starts.
    lacking = {key: most[key] for key in sorted(needed) if needed[key] > most.get(key, 0) > 0}
    if not lacking:
        return None
    return f"it requests {_listed(needed)}, but no node has more than {_listed(lacking)} for pods"


def may_fit_quota(refusal: str, pods: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a quota that refused a pod could hold that pod and the job's own `pods`."""
    match = re.search(r"exceeded quota: \S+, requested: (\S+), used: \S+, limited: (\S+)", refusal)
    if match is None:
        return False
    requested, limited = (
        _amounts(dict(each.split("=") for each in part.split(","))) for part in match.groups()
    )
    held = _merged(add, (_requests(pod["spec"]) for pod in pods))
    return all(
        value + held.get(re.sub(r"^(requests|limits)\.", "", key), 0) <= limited[key]
        for key, value in requested.items()
    )


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Return a pod's requests: the sum over its containers, or those of a larger init container."""
    own, init = (
        [_amounts((each.get("resources") or {}).get("requests")) for each in spec.get(kind) or ()]
        for kind in ("containers", "initContainers")
    )
    return _merged(max, [_merged(add, own), *init])


def _merged(merge: Callable[[Decimal, Decimal], Decimal], amounts: Iterable[Amounts]) -> Amounts:
    merged: Amounts = {}
    for key, value in chain.from_iterable(each.items() for each in amounts):
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def _amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    # The kubernetes package's function is untyped.
    return {key: parse_quantity(value) for key, value in (quantities or {}).items()}  # type: ignore[no-untyped-call]


def _listed(amounts: Amounts) -> str:
    return ", ".join(
        f"{gibibytes(int(value)) if key in _BYTES else f'{float(value):g}'} "
        f"{'cores' if key == 'cpu' else key}"
        for key, value in amounts.items()
    )
