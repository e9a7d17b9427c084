"""Wait until a run ends, and show its progress."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from clusters.cloud_reports import RefusedPulls
from core.context import Context
from jobs.api.client import JobApi
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import conditions, has_ended, resumed
from jobs.observe.failures import Origin
from jobs.observe.feed import Feed
from jobs.observe.gpus import GpuMeter
from jobs.observe.log_ends import LogEnds
from jobs.observe.obstacles import Obstacles
from jobs.observe.outcome import details, remarks, result
from jobs.observe.progress import Progress
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of, is_stuck, outlasting
from jobs.plan import TrainingCost
from jobs.records.archive import INTERRUPTED, Entry, Kind, Run, Timeline, entry
from jobs.result import End, RunResult

_TICK_SECONDS = 0.5
_PAUSE_SECONDS = 15.0  # between two lines on the same epoch, to keep the log short
_SETTLE_SECONDS = 5.0  # a cause may be seen this long after its effects
_NODE_SECONDS = 60.0  # time for which a lost node may still look Ready
_STACKS_SECONDS = 5.0
_MOST_EVENTS = 500  # Kubernetes events in a timeline
_LOGS_SECONDS = 30.0  # limit for reading the rest of the logs at the end
_SILENCE_SECONDS = 120.0
"""The longest wait for a response from the API server, which may be restarting."""


class InterruptedWait(Exception):
    """The wait for a run ended early; the run itself continues."""


@dataclass
class Wait:
    """Waits for one run to end, and stops it if it exceeds a limit."""

    api: JobApi
    job: Mapping[str, Any]  # the PyTorchJob
    declared: TrainingJob
    context: Context
    kept: Run
    cost: TrainingCost | None = None  # of its nodes, if known
    pulls: RefusedPulls | None = None  # image pulls that were refused but may still be authorised
    prefix: str = ""  # of its row
    clock: Callable[[], float] = time.monotonic  # in seconds, for the job's time limits
    _dropped: int = 0
    _warned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        run = self._run = RunState(self.job, self.pulls)
        self._row = _Row(self.context, self.prefix)
        self._logs = LogEnds(self._run, self.kept)
        self._timeline = Timeline(self.kept.timeline)
        self._obstacles = Obstacles(self.api, self._run, self._warn_once)
        self._gpus: GpuMeter | None = None
        if (least := self.declared.min_gpu_utilization) is not None:
            self._gpus = GpuMeter(self.api, run, least, self._warn_once)

    def to_the_end(self) -> RunResult:
        """Return the run's result, even if it failed, and stop the pods that are still running.

        Raises:
            InterruptedWait: the user pressed Ctrl-C, or the API server did not respond for 2 min.
        """
        run, begun = self._run, self.clock() - (age := self.api.age(self.job))
        if (rank := self.declared.debug) is not None:
            self.context.info(
                f"rank {rank} is waiting for a debugger: `make debug JOB={self.api.name}`"
            )
        # An adopted run may be older than its start timeout.
        run.is_old = age - resumed(self.job) > self.declared.start_timeout
        run.see_pods(self.api.pods())
        with Feed(self.api, run, self.kept, self._warn_once) as feed:
            while (end := self._end(self.clock() - begun)) is None or self._may_drop(end):
                if end is not None:
                    self._drop_stalled()
                self._process(feed)
                self._check(feed)
            self._see_pods()
            self._settle(feed, may_be_held=run.may_be_held and end.state == "Failed")
            end = self._end() or end
            if stuck := is_stuck(run, end):
                self._stop_survivors(end)
                self._await_stacks(len(run.hanging))
            feed.finish(_LOGS_SECONDS)
        if not stuck:
            # Pods that have been stopped by now do not count.
            self._see_pods()
            end = self._end() or end
        return self._conclude(end)

    def _end(self, elapsed: float = 0) -> End | None:
        return end_of(self._run, elapsed, self.declared, self.cost)

    def _may_drop(self, end: End) -> bool:
        """Return whether an elastic run may continue without the stalled ranks."""
        is_elastic = self._run.topology.elastic and self._dropped < self.declared.max_restarts
        return is_elastic and end.state == "TimedOut" and bool(self._run.stalled)

    def _drop_stalled(self) -> None:
        """Delete the pods of stalled ranks, which the operator then replaces."""
        stalled = self._run.stalled or ()
        for replica in stalled:
            self.api.delete_pod(replica.name)
        self._await_stacks(len(stalled))
        stacks = self._logs.stacks()
        for replica in stalled:
            where = ", ".join(stacks.get(replica.ranks, [])[:1]) or "an unknown location"
            limit = f"for {self.declared.stall} s at {where}"
            self.context.warn(f"{replica} stalled {limit}: its pod is being replaced")
            self._dropped += 1
        self._run.forget_stillness()

    def _process(self, feed: Feed) -> None:
        feed.process(_TICK_SECONDS)
        self._report()
        self._row.show(f"{self._run.status}{self._run.paces}", self._run.progress)
        self._obstacles.look()
        if self._gpus is not None:
            self._gpus.look()

    def _see_pods(self) -> None:
        """List the pods again, since their watch may report the run's end later than the job's."""
        self._run.see_pods(self.api.pods())
        self._report()

    def _settle(self, feed: Feed, *, may_be_held: bool) -> None:
        """Wait, for a limited time, for the failure that caused the others, or for a held pod."""
        cause = self._run.cause
        missed_a_peer = cause is not None and cause.origin is Origin.PEER
        # The peer may have been on a lost node.
        may_be_a_node = missed_a_peer and len(self._run.nodes) > 1
        deadline = time.monotonic() + (_NODE_SECONDS if may_be_a_node else _SETTLE_SECONDS)
        while time.monotonic() < deadline and (
            self._run.cause_may_be_to_come or (may_be_held and not self._run.held)
        ):
            self._process(feed)

    def _await_stacks(self, stopped: int) -> None:
        """Wait, for a limited time, until stopped ranks have printed their stack traces."""
        deadline = time.monotonic() + _STACKS_SECONDS
        while len(self._logs.stacks()) < stopped and time.monotonic() < deadline:
            time.sleep(_TICK_SECONDS)  # The feed stays paused, so that stopped pods don't count.

    def _check(self, feed: Feed) -> None:
        job = f"{self.api.namespace}/{self.api.name}"
        if self.context.cancelled.is_set():
            end = ", which continues. The next `make up` waits for it again; `make down` stops it"
            if self.declared.on_cancel == "delete":
                self.api.delete()
                resumes = self.declared.checkpoint is not None
                begins = "its newest checkpoint, if it has one" if resumes else "the beginning"
                end = f" it, as `onCancel` requests; the next `make up` trains from {begins}"
                ended = entry(datetime.now(UTC), "end", INTERRUPTED, f"Ctrl-C deleted{end}")
                self._timeline.add([ended])
                end = f" and deleted{end}"
            raise InterruptedWait(f"stopped waiting for PyTorchJob {job}{end}")
        if time.monotonic() - feed.follower.contact > _SILENCE_SECONDS:
            raise InterruptedWait(
                f"no usable response from the API server for {_SILENCE_SECONDS:g} s while waiting "
                f"for PyTorchJob {job}: {feed.follower.last_error}. Once requests succeed, the "
                "next `make up` waits for the job again"
            )

    def _report(self) -> None:
        """Show each failure immediately, unless it is only the consequence of a lost peer."""
        self._timeline.add(entries_of_run(self._run))
        for failed in self._run.failures:
            if failed.origin is not Origin.PEER:
                self._warn_once(str(failed))
        for rank, text in self._run.paces.slow.items():
            self._warn_once(f"rank {rank} is {text}")

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self.context.warn(message)

    def _conclude(self, end: End) -> RunResult:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        failure, events = None, self._obstacles.events()
        self._timeline.add(entries_of_end(end, now, events))
        if end.state != "Succeeded":
            self._obstacles.see_nodes()
            silent = self._logs.silent()
            if end.state == "TimedOut" and len(silent) == 1:
                end = replace(end, reason=f"{end.reason}; the others waited for {silent[0]}")
            failure = details(end, self._logs, events, self.declared)
        elif text := outlasting(self._run):
            self._warn_once(text)
        for text in self._run.progress.warnings:
            self._warn_once(text)
        self._stop_survivors(end)
        outcome = result(end, self._run, now, failure, self._full_message)
        for text in remarks(self._run, outcome):
            self._warn_once(text)
        if outcome.left_out:
            listed = ", ".join(f"{place} is {text}" for place, text in outcome.left_out.items())
            self._warn_once(f"the result omits invalid values (docs/results.md): {listed:.500}")
        return outcome

    def _full_message(self, number: int) -> Mapping[str, Any]:
        """Return a replica's full summary, which did not fit in its termination message."""
        if not (summary := self._logs.summary(number)):
            self._warn_once(
                "the result lacks part of rank 0's report: it exceeds 4 KB, and the full report is "
                "not in the log, which was lost or contains a line over 256 KB"
            )
        return summary

    def _stop_survivors(self, end: End) -> None:
        """Stop pods that are still running; the others are kept, so that their logs can be read."""
        held, goes_on = self._run.held, not (self._run.job_deleted or has_ended(self._run.job))
        if end.state in {"TimedOut", "CannotStart"} or (goes_on and not held):
            # To the operator it has not ended, so pods would be replaced unless the job is deleted.
            self.api.delete()
            return
        ends = {"spec": {"activeDeadlineSeconds": 1}}  # a deleted pod would be replaced
        for number, replica in self._run.replicas.items():
            if number not in held and (replica.active or replica.outlasting):
                self.api.patch(ends, replica.name) if held else self.api.delete_pod(replica.name)


@dataclass
class _Row:
    """A run's row in the output of `pulumi up`; in a CI log, each change to the row is a line."""

    context: Context
    prefix: str = ""
    _shown: str = ""
    _milestone: tuple[str, int, bool, bool] = ("", 0, False, False)
    _shown_at: float = 0.0

    def show(self, stages: str, progress: Progress) -> None:
        """Show stages and progress; a new stage, epoch or first output is shown immediately."""
        training = str(progress)
        milestone = (stages, progress.epochs_done, progress.has_stepped, training != "")
        line = f"{stages}; {training}" if training else stages
        now = time.monotonic()
        is_soon = milestone == self._milestone and now - self._shown_at < _PAUSE_SECONDS
        if line == self._shown or is_soon:
            return
        self._shown, self._milestone, self._shown_at = line, milestone, now
        self.context.status(f"{self.prefix}{line}")


def entries_of_end(end: End, at: str, events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the timeline's entries for a run's latest Kubernetes events and its end."""
    entries = sorted(map(_of_event, events), key=lambda each: each["time"])
    return [*entries[-_MOST_EVENTS:], entry(at, "end", end.state, end.reason)]


def entries_of_run(run: RunState) -> Iterator[Entry]:
    """Yield the timeline's entries for what was observed in a run so far."""
    job = f"PyTorchJob {run.job['metadata'].get('name')}"
    for each in conditions(run.job):
        text = f"{each['type']}: {each.get('message') or each.get('reason') or ''}"
        yield entry(each.get("lastTransitionTime"), "condition", job, text)
    for replica in run.replicas.values():
        if replica.running:
            text = f"started again ({replica.restarts})" if replica.restarts else "started"
            yield entry(replica.running_since, "container", str(replica), text)
        for ended in replica.exits:
            if ended.code == 0:
                yield entry(ended.finished, "container", str(replica), str(ended))
    for failed in run.failures:
        yield entry(failed.finished, "failure", str(failed.replica), str(failed))
    for lost in filter(None, (*run.disruptions.values(), run.lost_node)):
        yield entry(lost.at, "failure", job, lost.text)


def _of_event(event: Mapping[str, Any]) -> Entry:
    about, count = event["involvedObject"], event.get("count") or 1
    times = ("lastTimestamp", "eventTime", "firstTimestamp")
    at = next((event[name] for name in times if event.get(name)), None)
    message = str(event.get("message", "")).strip()
    text = f"{event.get('reason')}: {message}" + (f" ({count} times)" if count > 1 else "")
    kind: Kind = "warning" if event.get("type") == "Warning" else "event"
    return entry(at, kind, f"{about.get('kind')} {about.get('name')}", text)
