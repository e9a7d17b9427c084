"""Wait for the end of a run, and show on the way what it does."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from core.context import Context
from jobs.api import JobApi
from jobs.logs.archive import Run
from jobs.watch import story
from jobs.watch.causes import Origin
from jobs.watch.feed import Feed
from jobs.watch.last_words import LastWords
from jobs.watch.obstacles import Obstacles
from jobs.watch.results import End, Result, result
from jobs.watch.row import Row
from jobs.watch.story import Evidence
from jobs.watch.tracker import Limits, Tracker

_TICK_SECONDS = 0.5
_SETTLE_SECONDS = 5.0
"""How much later than its followers' the failure that took them along may be told of."""
_STACKS_SECONDS = 5.0
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
        kept: Where its logs are kept; None to keep none.
    """

    api: JobApi
    job: Mapping[str, Any]
    limits: Limits
    age: float
    context: Context
    on_cancel: Literal["keep", "delete"] = "keep"
    kept: Run | None = None
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._row = Row(self.context)
        self._logs = LastWords(self.api, self.kept)
        self._obstacles = Obstacles(self.api, self._warn_once)

    def to_the_end(self) -> Result:
        """Return the run's result, whatever it is, and stop what is left running of it.

        Raises:
            InterruptedWait: Ctrl-C, or no contact to the API server for two minutes.
        """
        tracker = Tracker(self.job)
        begun = time.monotonic() - self.age
        # What was adopted may be older than the limit for the start of its replicas.
        tracker.see_pods(self.api.pods())
        with Feed(self.api, self.job, self.kept, self._warn_once) as feed:
            while (end := tracker.end(time.monotonic() - begun, self.limits)) is None:
                self._take_in(feed, tracker)
                self._show(tracker)
                self._check(feed)
            self._settle(feed, tracker)
            end = tracker.end(0, self.limits) or end
            if is_stuck := tracker.is_stuck(end):
                self._stop_survivors(end, tracker)
                self._await_stacks(feed, tracker)
            feed.finish(_LOGS_SECONDS)
        if not is_stuck:
            # What was stopped by now does not count.
            tracker.see_pods(self.api.pods())
            self._report(tracker)
            end = tracker.end(0, self.limits) or end
        return self._conclude(tracker, end)

    def _settle(self, feed: Feed, tracker: Tracker) -> None:
        """See the pods once more, and wait for the failure that the others followed, if it lacks.

        Its node may tell of it a moment later.
        """
        # The job and its pods are watched apart, so its end may have come before theirs.
        tracker.see_pods(self.api.pods())
        self._report(tracker)
        deadline = time.monotonic() + _SETTLE_SECONDS
        while tracker.cause_may_be_to_come and time.monotonic() < deadline:
            self._take_in(feed, tracker)
            self._report(tracker)

    def _await_stacks(self, feed: Feed, tracker: Tracker) -> None:
        """Wait until each rank that was stopped has reported where it stood, if it does."""
        deadline = time.monotonic() + _STACKS_SECONDS
        hanging = len(tracker.hanging)
        while len(self._logs.stacks(tracker)) < hanging and time.monotonic() < deadline:
            feed.next(_TICK_SECONDS)

    def _take_in(self, feed: Feed, tracker: Tracker) -> None:
        for seen in feed.next(_TICK_SECONDS):
            if seen.kind == "jobs":
                tracker.see_jobs(seen.what)
            elif seen.kind == "pods":
                tracker.see_pods(seen.what)
            else:
                tracker.progress.see(seen.what)

    def _show(self, tracker: Tracker) -> None:
        self._report(tracker)
        self._row.show(tracker.status, tracker.progress)
        self._obstacles.look(tracker)

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

    def _report(self, tracker: Tracker) -> None:
        """Show a failure at once unless it followed another one, and keep the log of each."""
        for failed in tracker.failures:
            if self._logs.note(failed) and failed.origin is not Origin.PEER:
                self._warn_once(str(failed))

    def _warn_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self.context.warn(message)

    def _conclude(self, tracker: Tracker, end: End) -> Result:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {}
        if end.state != "Succeeded":
            self._obstacles.see_nodes(tracker)
            silent = self._logs.silent(tracker)
            if end.state == "TimedOut" and len(silent) == 1:
                [one] = silent
                reason = f"{end.reason}; the others waited for {one.ranks} ({one.name})"
                end = replace(end, reason=reason)
            evidence = Evidence(
                log=self._logs.matter(tracker, silent),
                events=self._obstacles.events(tracker),
                before=self._logs.before(tracker),
                followers=tracker.followers,
                silent=silent,
                stacks=self._logs.stacks(tracker),
                failed_init=tracker.failed_init,
            )
            told["failure"] = story.details(end, tracker.cause, evidence, tracker.cured_by_a_retry)
        self._stop_survivors(end, tracker)
        ended = result(
            end,
            tracker.job,
            tracker.replicas,
            {each.replica.number: each.exit for each in tracker.failures},
            seen_at=now,
        )
        return {**ended, **told}

    def _stop_survivors(self, end: End, tracker: Tracker) -> None:
        """Stop what still runs of a run that has ended; pods that are done stay, to be read."""
        if end.state in {"TimedOut", "CannotStart"}:
            # To the operator it has not ended: without its job no pod is made again.
            self.api.delete()
            return
        for replica in tracker.replicas.values():
            if replica.active:
                self.api.delete_pod(replica.name)
