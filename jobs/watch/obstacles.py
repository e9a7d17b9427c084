"""Looks at a cluster, now and then, for what keeps the pods of a job from starting."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kubernetes.client.exceptions import ApiException

from clusters import cloud_reports
from core.kube import api_message
from jobs.api import JobApi, Object, Unreachable
from jobs.judge.outcome import warnings
from jobs.judge.replica import Replica
from jobs.judge.run_state import RunState
from jobs.judge.shortage import never_fits

_EVENTS_SECONDS = 2.0
_PLACING_SECONDS = 20.0
"""So long a volume may be bound, or pods that are being deleted may still take their room."""
_ROOM_SECONDS = 10.0
_NODES_SECONDS = 5.0


@dataclass
class Obstacles:
    """What is in the way of one job; `warn` takes each message however often."""

    api: JobApi
    run: RunState
    warn: Callable[[str], None]
    _unplaced: dict[str, float] = field(default_factory=dict)
    """When a pod was first seen without a node, by its uid."""
    _events_at: float = 0.0
    _room_at: float = 0.0
    _nodes_at: float = 0.0

    def look(self) -> None:
        """Show what is in the way, and let the run judge whether that is the end."""
        now, run = time.monotonic(), self.run
        if now - self._nodes_at >= _NODES_SECONDS:
            self._nodes_at = now
            self.see_nodes()
        if run.all_started or now - self._events_at < _EVENTS_SECONDS:
            return
        self._events_at = now
        events = self._events()
        run.see_events(events)
        for warning in warnings(self._lasting(events, _PLACING_SECONDS)):
            self.warn(warning)
        if run.refused_logins:
            self.warn(f"{run.refused_logins[0]}: {cloud_reports.LATE_ROLE_ADVICE}")
        if run.growth is not None and not run.growth.coming:
            self.warn(cloud_reports.explained(str(run.growth)))
        waiting = [each for each in run.replicas.values() if each.unschedulable is not None]
        if waiting and now - self._room_at >= _ROOM_SECONDS:
            self._room_at = now
            # An account that may only submit sees the scheduler's events all the same.
            with suppress(ApiException, Unreachable):
                self._see_room(waiting)

    def _see_room(self, waiting: Sequence[Replica]) -> None:
        """See whether any node could ever fit them, and why an autoscaler adds none."""
        status = self.api.autoscaler_status()
        if status is not None:
            self.run.setbacks = cloud_reports.setbacks(status, self.api.autoscaler_events())
            for setback in self.run.setbacks:
                self.warn(f"the cluster's autoscaler makes no node: {setback}")
            return
        nodes = self.api.nodes()
        found = ((each, never_fits(each.pod, nodes)) for each in waiting)
        lacks = [f"{replica} has no node: {why}" for replica, why in found if why is not None]
        self.run.shortage = lacks[0] if lacks else None

    def _lasting(self, events: Iterable[Object], seconds: float) -> Iterator[Object]:
        """Yield events without a scheduler's about pods that have lacked a node for less time."""
        now = time.monotonic()
        unplaced = {each.uid for each in self.run.replicas.values() if each.unschedulable}
        self._unplaced = {uid: self._unplaced.get(uid, now) for uid in unplaced}
        for event in events:
            since = self._unplaced.get(event["involvedObject"].get("uid"))
            lasts = since is not None and now - since >= seconds
            if lasts or event.get("reason") != "FailedScheduling":
                yield event

    def events(self) -> list[Object]:
        """Return Kubernetes' events that still matter when a run has ended."""
        return list(self._lasting(self._events(), 0))

    def _events(self) -> list[Object]:
        """Return Kubernetes' events of the job and its pods; none when they can't be read."""
        uids = {self.run.uid, *(replica.uid for replica in self.run.replicas.values())}
        try:
            return self.api.events(uids)
        except (ApiException, Unreachable) as error:
            self.warn(f"the events of {self.api.name} cannot be read: {api_message(error)}")
            return []

    def see_nodes(self) -> None:
        """Let the run see whether a node was lost, as far as this account may."""
        if self.run.nodes:
            with suppress(ApiException, Unreachable):
                self.run.see_nodes(self.api.nodes())
