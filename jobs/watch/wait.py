"""Wait for the end of a run, and show on the way what it does."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from core.context import Context
from jobs.api import JobApi
from jobs.judge.failure_report import Evidence, details
from jobs.judge.first_failure import Origin
from jobs.judge.outcome import result
from jobs.judge.progress import Progress
from jobs.judge.run_state import RunState
from jobs.judge.timeouts import Limits
from jobs.judge.verdict import is_stuck, judge
from jobs.logs.archive import Run
from jobs.result import End, RunResult
from jobs.watch.feed import Feed
from jobs.watch.log_ends import LogEnds
from jobs.watch.obstacles import Obstacles

_TICK_SECONDS = 0.5
_SHORTEST, _LONGEST = 15.0, 30.0
"""Seconds between two lines on the same epoch: a day of training is to be no book."""
_SHARE = 20
_SETTLE_SECONDS = 5.0
"""How long after its followers' failures the one that caused them may be reported."""
_NODE_SECONDS = 60.0
"""How long after them a node that they lost may still be Ready."""
_STACKS_SECONDS = 5.0
_LOGS_SECONDS = 30.0
"""How long what is missing of the logs may take at the end."""
_SILENCE_SECONDS = 120.0
"""How long the API server may be away, while a component is restarted for example."""


class InterruptedWait(Exception):
    """The wait for a run has ended before it; the run itself goes on."""


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
    _warned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._row = _Row(self.context)
        self._logs = LogEnds(self.api, self.kept)
        self._obstacles = Obstacles(self.api, self._warn_once)

    def to_the_end(self) -> RunResult:
        """Return the run's result, whatever it is, and stop what is left running of it.

        Raises:
            InterruptedWait: Ctrl-C, or no contact to the API server for two minutes.
        """
        run = RunState(self.job)
        begun = time.monotonic() - self.age
        # What was adopted may be older than the limit for the start of its replicas.
        run.see_pods(self.api.pods())
        with Feed(self.api, self.job, self.kept, self._warn_once) as feed:
            while (end := judge(run, time.monotonic() - begun, self.limits)) is None:
                self._take_in(feed, run)
                self._show(run)
                self._check(feed)
            self._settle(feed, run)
            end = judge(run, 0, self.limits) or end
            if stuck := is_stuck(run, end):
                self._stop_survivors(end, run)
                self._await_stacks(feed, run)
            feed.finish(_LOGS_SECONDS)
        if not stuck:
            # What was stopped by now does not count.
            run.see_pods(self.api.pods())
            self._report(run)
            end = judge(run, 0, self.limits) or end
        return self._conclude(run, end)

    def _settle(self, feed: Feed, run: RunState) -> None:
        """See the pods once more, and wait for the failure that the others followed, if it lacks.

        Its node may report it with a delay.
        """
        # The job and its pods are watched apart, so its end may have come before theirs.
        run.see_pods(self.api.pods())
        self._report(run)
        seconds = _NODE_SECONDS if run.missed_another_node else _SETTLE_SECONDS
        deadline = time.monotonic() + seconds
        while run.cause_may_be_to_come and time.monotonic() < deadline:
            self._take_in(feed, run)
            self._report(run)
            self._obstacles.look(run)

    def _await_stacks(self, feed: Feed, run: RunState) -> None:
        """Wait until each rank that was stopped has reported where it stood, if it does."""
        deadline = time.monotonic() + _STACKS_SECONDS
        hanging = len(run.hanging)
        while len(self._logs.stacks(run)) < hanging and time.monotonic() < deadline:
            feed.next(_TICK_SECONDS)

    def _take_in(self, feed: Feed, run: RunState) -> None:
        for seen in feed.next(_TICK_SECONDS):
            if seen.kind == "jobs":
                run.see_jobs(seen.what)
            elif seen.kind == "pods":
                run.see_pods(seen.what)
            else:
                run.progress.see(seen.what)

    def _show(self, run: RunState) -> None:
        self._report(run)
        self._row.show(run.status, run.progress)
        self._obstacles.look(run)

    def _check(self, feed: Feed) -> None:
        job = f"{self.api.namespace}/{self.api.name}"
        if self.context.cancelled.is_set() and self.on_cancel == "delete":
            self.api.delete()
            raise InterruptedWait(
                f"stopped waiting for PyTorchJob {job} and deleted it, as its `onCancel` says; "
                "the next `make up` trains from the beginning"
            )
        if self.context.cancelled.is_set():
            raise InterruptedWait(
                f"stopped waiting for PyTorchJob {job}, which continues. The next `make up` waits "
                "for it again; `make down` ends it"
            )
        if feed.silent_seconds > _SILENCE_SECONDS:
            raise InterruptedWait(
                f"no answer from the API server for {_SILENCE_SECONDS:g} s while waiting for "
                f"PyTorchJob {job}: {feed.last_error}. Once it answers, the next "
                "`make up` waits for it again"
            )

    def _report(self, run: RunState) -> None:
        """Show a failure at once unless it followed another one, and keep the log of each."""
        for failed in run.failures:
            if self._logs.note(failed) and failed.origin is not Origin.PEER:
                self._warn_once(str(failed))

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self.context.warn(message)

    def _conclude(self, run: RunState, end: End) -> RunResult:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        failure = None
        if end.state != "Succeeded":
            self._obstacles.see_nodes(run)
            silent = self._logs.silent(run)
            if end.state == "TimedOut" and len(silent) == 1:
                [one] = silent
                reason = f"{end.reason}; the others waited for {one.ranks} ({one.name})"
                end = replace(end, reason=reason)
            evidence = Evidence(
                log=self._logs.relevant(run, silent),
                events=self._obstacles.events(run),
                before=self._logs.before(run),
                followers=run.followers,
                silent=silent,
                stacks=self._logs.stacks(run),
                failed_init=run.failed_init,
            )
            failure = details(end, run.cause, evidence, run.cured_by_a_retry)
        self._stop_survivors(end, run)
        exits = {each.replica.number: each.exit for each in run.failures}
        return result(end, run.job, run.replicas, exits, seen_at=now, failure=failure)

    def _stop_survivors(self, end: End, run: RunState) -> None:
        """Stop what still runs of a run that has ended; pods that are done stay, to be read."""
        if end.state in {"TimedOut", "CannotStart"} or run.goes_on:
            # To the operator it has not ended: without its job no pod is made again.
            self.api.delete()
            return
        for replica in run.replicas.values():
            if replica.active:
                self.api.delete_pod(replica.name)


@dataclass
class _Row:
    """The row of a run in `pulumi up`, which is also a line each time in the log of a CI run.

    Args:
        context: Of the resource.
    """

    context: Context
    _begun: float = field(default_factory=time.monotonic)
    _shown: str = ""
    _milestone: tuple[str, int, bool, bool] = ("", 0, False, False)
    _shown_at: float = 0.0

    def show(self, stages: str, progress: Progress) -> None:
        """Show where the pods and the training are: a new stage, epoch or first word at once."""
        training = str(progress)
        milestone = (stages, progress.epochs_done, progress.has_stepped, training != "")
        line = f"{stages}; {training}" if training else stages
        now = time.monotonic()
        pause = min(_LONGEST, max(_SHORTEST, (now - self._begun) / _SHARE))
        if line == self._shown or (milestone == self._milestone and now - self._shown_at < pause):
            return
        self._shown, self._milestone, self._shown_at = line, milestone, now
        self.context.status(line)
