"""Wait for the end of a run, and show on the way what it does."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from kubernetes.client.exceptions import ApiException

from infra.plugin.context import Context
from jobs import failure, room
from jobs.api import JobApi, Unreachable, said
from jobs.archive import Archive
from jobs.failure import LOG_LINES, Evidence
from jobs.failures import Failure
from jobs.feed import Feed
from jobs.replicas import Replica, replicas
from jobs.results import Result, result
from jobs.room import Shortage
from jobs.row import Row
from jobs.spec import CONTAINER
from jobs.tracker import End, Limits, Tracker

_TICK_SECONDS = 0.5
_AROUND_SECONDS = 2.0
_SHORTAGE_SECONDS = 10.0
_LOGS = 20
"""Of so many failures the logs are fetched; when all of 1,000 ranks fail, the rest say the same."""
_SETTLE_SECONDS = 5.0
"""How much later than its followers' the failure that took them along may be told of."""
_LOGS_SECONDS = 30.0
"""How long what is missing of the logs may take at the end."""
_SILENCE_SECONDS = 120.0
"""How long the API server may be away, while a component is restarted for example."""


class InterruptedWait(Exception):
    """Nobody waits for the run any more; the run itself goes on."""


@dataclass
class Wait:
    """One run on its way to its end.

    Args:
        api: Of the job.
        job: As it was submitted or adopted.
        limits: How long it may take.
        age: How many seconds ago it was submitted.
        context: Where to show what happens.
        on_cancel: What Ctrl-C does with the job: `keep` it, or `delete` it.
        archive: Where its logs are kept; None to keep none.
    """

    api: JobApi
    job: Mapping[str, Any]
    limits: Limits
    age: float
    context: Context
    on_cancel: Literal["keep", "delete"] = "keep"
    archive: Archive | None = None
    _logs: dict[str, list[str]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _row: Row = field(init=False)
    _around_at: float = 0.0
    _shortage_at: float = 0.0

    def __post_init__(self) -> None:
        self._row = Row(self.context)

    def to_the_end(self) -> Result:
        """Return the run's result, whatever it is, and stop what is left running of it.

        Raises:
            InterruptedWait: Ctrl-C, or no contact to the API server for two minutes.
        """
        tracker = Tracker(self.job)
        begun = time.monotonic() - self.age
        # What was adopted may be older than the limit for the start of its replicas.
        tracker.see_pods(self.api.pods())
        with Feed(self.api, self.job, self.archive, self._warn_once) as feed:
            while (end := tracker.end(time.monotonic() - begun, self.limits)) is None:
                self._take_in(feed, tracker)
                self._show(feed, tracker)
                self._check(feed)
            self._settle(feed, tracker)
            feed.finish(_LOGS_SECONDS)
        return self._conclude(tracker, tracker.end(0, self.limits) or end)

    def _settle(self, feed: Feed, tracker: Tracker) -> None:
        """Wait for the failure that the others followed: its node may tell of it a moment later."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while tracker.cause_may_be_to_come and time.monotonic() < deadline:
            self._take_in(feed, tracker)
            for failed in tracker.failures:
                self._report(failed)

    def _take_in(self, feed: Feed, tracker: Tracker) -> None:
        for seen in feed.next(_TICK_SECONDS):
            if seen.kind == "jobs":
                tracker.see_jobs(seen.what)
            elif seen.kind == "pods":
                tracker.see_pods(seen.what)
            else:
                tracker.progress.see(seen.what)

    def _show(self, feed: Feed, tracker: Tracker) -> None:
        for failed in tracker.failures:
            self._report(failed)
        self._row.show(tracker.status, tracker.progress)
        if not tracker.all_started and time.monotonic() - self._around_at > _AROUND_SECONDS:
            self._around_at = time.monotonic()
            self._look_around(tracker)

    def _look_around(self, tracker: Tracker) -> None:
        """Find out what keeps the job's pods from starting, and tell it at once."""
        events = self._events(tracker)
        tracker.see_events(events)
        for warning in failure.warnings(events):
            self._warn_once(warning)
        if time.monotonic() - self._shortage_at > _SHORTAGE_SECONDS:
            try:
                tracker.shortage = self._shortage(tracker)
            except (ApiException, Unreachable) as error:
                # An account that may only submit sees the scheduler's events all the same.
                self._warn_once(
                    f"the cluster's room for {self.api.name} is not known: {said(error)}"
                )
            if tracker.shortage is not None:
                self._shortage_at = time.monotonic()
                self._warn_once(tracker.shortage.text)

    def _shortage(self, tracker: Tracker) -> Shortage | None:
        """Return what a pod that has no node lacks, or one that can't even be."""
        for replica in tracker.replicas.values():
            if replica.unschedulable is not None:
                grows = self.api.may_grow()
                nodes, pods = self.api.nodes(), self.api.all_pods()
                found = room.without_node(replica.pod, nodes, pods, may_grow=grows)
                text = f"{replica.ranks} ({replica.name}) has no node: {found.text}"
                return Shortage(text, found.final)
        if len(tracker.replicas) < tracker.topology.replicas:
            return room.over_quota(tracker.job, self.api.quotas())
        return None

    def _check(self, feed: Feed) -> None:
        job = f"{self.api.namespace}/{self.api.name}"
        if self.context.cancelled.is_set() and self.on_cancel == "delete":
            self.api.delete()
            raise InterruptedWait(
                f"stopped waiting for PyTorchJob {job} and deleted it, as its `onCancel` says; "
                "the next `pulumi up` trains from the beginning"
            )
        if self.context.cancelled.is_set():
            raise InterruptedWait(
                f"stopped waiting for PyTorchJob {job}; it goes on. The next `pulumi up` takes "
                "the wait up again; `pulumi destroy` ends the run"
            )
        if feed.silent_seconds > _SILENCE_SECONDS:
            raise InterruptedWait(
                f"no answer from the API server for {_SILENCE_SECONDS:g} s while waiting for "
                f"PyTorchJob {job}: {feed.last_error}. Once it answers again, the next "
                "`pulumi up` takes the wait up again"
            )

    def _report(self, failed: Failure) -> None:
        """Tell of a failure at once, and keep its log: the operator may delete the pod."""
        if failed.exit.container_id in self._logs:
            return
        log = self._log_of(failed) if len(self._logs) < _LOGS else []
        if not log and failure.error(failed.exit) is None:
            log = failed.exit.message.splitlines()
        self._logs[failed.exit.container_id] = log
        self._warn_once(str(failed))

    def _log_of(self, failed: Failure) -> list[str]:
        log = self._log(failed.replica, previous=not self._is_latest(failed))
        # It may have been started again just then: what was read is the next one's.
        return log if self._is_latest(failed) else self._log(failed.replica, previous=True)

    def _is_latest(self, failed: Failure) -> bool:
        """Return whether the container that failed is still its replica's latest."""
        try:
            now = replicas(self.api.pods(), failed.replica.topology).get(failed.replica.number)
        except (ApiException, Unreachable):
            now = failed.replica
        latest = failed.replica if now is None else now
        return latest.container_id == failed.exit.container_id

    def _warn_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self.context.warn(message)

    def _log(self, replica: Replica, *, container: str = CONTAINER, previous: bool) -> list[str]:
        try:
            text = self.api.log(replica.name, container, lines=LOG_LINES, previous=previous)
        except (ApiException, Unreachable):
            return []  # The pod or the container has gone; its termination message has to do.
        return text.splitlines()

    def _events(self, tracker: Tracker) -> list[dict[str, Any]]:
        try:
            return self.api.events(
                {tracker.uid, *(replica.uid for replica in tracker.replicas.values())}
            )
        except (ApiException, Unreachable) as error:
            self._warn_once(f"the events of {self.api.name} cannot be read: {said(error)}")
            return []

    def _conclude(self, tracker: Tracker, end: End) -> Result:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = self.api.pods()
        tracker.see_pods(pods)
        for failed in tracker.failures:
            self._report(failed)
        end = tracker.end(0, self.limits) or end
        story = {}
        if end.state != "Succeeded":
            self._see_nodes(tracker)
            evidence = Evidence(
                self._matter(tracker, end), self._events(tracker), self._before(tracker)
            )
            story["failure"] = failure.details(
                end, tracker.cause, evidence, tracker.cured_by_a_retry
            )
        self._stop_survivors(end, {pod["metadata"]["name"] for pod in pods}, tracker)
        ended = result(
            end.state,
            end.reason,
            tracker.job,
            tracker.replicas,
            seen_at=now,
        )
        return {**ended, **story}

    def _see_nodes(self, tracker: Tracker) -> None:
        try:
            tracker.see_nodes(self.api.nodes())
        except (ApiException, Unreachable) as error:
            self._warn_once(f"the nodes of {self.api.name} cannot be read: {said(error)}")

    def _before(self, tracker: Tracker) -> list[str]:
        """Return the log of the container that failed before in the same replica, if one did."""
        cause = tracker.cause
        if cause is None:
            return []
        same = [each for each in tracker.failures if each.replica.number == cause.replica.number]
        earlier = same[: same.index(cause)]
        return self._logs.get(earlier[-1].exit.container_id, []) if earlier else []

    def _matter(self, tracker: Tracker, end: End) -> list[str]:
        """Return the log that tells most: of the failure that matters, otherwise of replica 0."""
        if tracker.cause is not None:
            return self._logs[tracker.cause.exit.container_id]
        if end.crashing is not None and end.crashing.crash_loop is not None:
            return self._log(end.crashing, container=end.crashing.crash_loop, previous=True)
        first = tracker.replicas.get(0)
        return self._log(first, previous=False) if first is not None and first.started else []

    def _stop_survivors(self, end: End, there: set[str], tracker: Tracker) -> None:
        """Stop what still runs of a run that has ended; pods that are done stay, to be read."""
        if end.state in {"TimedOut", "CannotStart"}:
            # To the operator it has not ended: without its job no pod is made again.
            self.api.delete()
            return
        for replica in tracker.replicas.values():
            if replica.active and replica.name in there:
                self.api.delete_pod(replica.name)
