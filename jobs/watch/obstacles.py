"""Looks at a cluster, now and then, for what keeps the pods of a job from starting."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kubernetes.client.exceptions import ApiException

from clusters import autoscaler
from jobs.api import JobApi, Object, Unreachable, said
from jobs.watch import room, story
from jobs.watch.room import Shortage
from jobs.watch.tracker import Tracker

_EVENTS_SECONDS = 2.0
_PLACING_SECONDS = 20.0
"""So long a volume may be bound, or pods that are being deleted may still take their room."""
_ROOM_SECONDS = 10.0
"""It takes a listing of all pods of the cluster."""


@dataclass
class Obstacles:
    """What is in the way of one job.

    Args:
        api: Of the job.
        warn: Takes what a person should know, each thing however often.
    """

    api: JobApi
    warn: Callable[[str], None]
    _unplaced: dict[str, float] = field(default_factory=dict)
    """When a pod was first seen without a node, by its uid."""
    _events_at: float = 0.0
    _room_at: float = 0.0

    def look(self, tracker: Tracker) -> None:
        """Show what is in the way, and let the tracker judge whether that is the end."""
        now = time.monotonic()
        if tracker.all_started or now - self._events_at < _EVENTS_SECONDS:
            return
        self._events_at = now
        events = self._events(tracker)
        tracker.see_events(events)
        for warning in story.warnings(self._lasting(events, tracker, _PLACING_SECONDS)):
            self.warn(warning)
        if tracker.growth is not None and not tracker.growth.coming:
            self.warn(autoscaler.explained(str(tracker.growth)))
        if now - self._room_at < _ROOM_SECONDS:
            return
        try:
            tracker.shortage = self._shortage(tracker)
        except (ApiException, Unreachable) as error:
            # An account that may only submit sees the scheduler's events all the same.
            self.warn(f"the cluster's room for {self.api.name} is not known: {said(error)}")
            self._room_at = now
        if tracker.shortage is not None:
            self._room_at = now
            self.warn(tracker.shortage.text)
            self._see_setbacks(tracker)

    def _lasting(
        self, events: Iterable[Object], tracker: Tracker, seconds: float
    ) -> Iterator[Object]:
        """Return events without a scheduler's about pods that have lacked a node for less time."""
        now = time.monotonic()
        unplaced = {each.uid for each in tracker.replicas.values() if each.unschedulable}
        self._unplaced = {uid: self._unplaced.get(uid, now) for uid in unplaced}
        for event in events:
            since = self._unplaced.get(event["involvedObject"].get("uid"))
            lasts = since is not None and now - since >= seconds
            if lasts or event.get("reason") != "FailedScheduling":
                yield event

    def events(self, tracker: Tracker) -> list[Object]:
        """Return Kubernetes' events that still matter when a run has ended."""
        return list(self._lasting(self._events(tracker), tracker, 0))

    def _events(self, tracker: Tracker) -> list[Object]:
        """Return Kubernetes' events of the job and its pods; none when they can't be read."""
        uids = {tracker.uid, *(replica.uid for replica in tracker.replicas.values())}
        try:
            return self.api.events(uids)
        except (ApiException, Unreachable) as error:
            self.warn(f"the events of {self.api.name} cannot be read: {said(error)}")
            return []

    def see_nodes(self, tracker: Tracker) -> None:
        """After a failure, let the tracker see whether a node was lost."""
        try:
            tracker.see_nodes(self.api.nodes())
        except (ApiException, Unreachable) as error:
            self.warn(f"the nodes of {self.api.name} cannot be read: {said(error)}")

    def _see_setbacks(self, tracker: Tracker) -> None:
        """Tell, and let the tracker know, why an autoscaler that there is makes no nodes."""
        try:
            status = self.api.autoscaler_status()
            failed = [] if status is None else self.api.autoscaler_events()
        except (ApiException, Unreachable):
            return  # It is another namespace, which not everybody may look into.
        tracker.setbacks = autoscaler.setbacks(status, failed)
        for setback in tracker.setbacks:
            self.warn(f"the cluster's autoscaler makes no node: {setback}")

    def _shortage(self, tracker: Tracker) -> Shortage | None:
        """Return what a pod that has no node lacks, or one that can't even be."""
        for replica in tracker.replicas.values():
            if replica.unschedulable is not None:
                grows = self.api.autoscaler_status() is not None
                nodes, pods = self.api.nodes(), self.api.all_pods()
                found = room.without_node(replica.pod, nodes, pods, may_grow=grows)
                if found is None:
                    continue
                text = f"{replica.ranks} ({replica.name}) has no node: {found.text}"
                return Shortage(text, found.final)
        if len(tracker.replicas) < tracker.topology.replicas:
            return room.over_quota(tracker.job, self.api.quotas())
        return None
