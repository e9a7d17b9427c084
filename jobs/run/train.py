"""Train a job until it ends: submit it, wait, and retry as often as its `retries` allow."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kubernetes.client.exceptions import ApiException

from clusters.cloud_reports import RefusedPulls
from core.context import Context
from core.kube import api_message
from jobs.api.client import JobApi, Object
from jobs.model.job import declaration
from jobs.model.pytorchjob import Topology, run_of
from jobs.model.submission import Submission
from jobs.observe.wait import Wait
from jobs.plan import TrainingCost
from jobs.records.archive import Archive
from jobs.records.events import added, unreported
from jobs.records.history import History, Record
from jobs.result import RunResult
from jobs.run import retry
from jobs.run.retry import Attempt
from jobs.run.submit import submit

_RETURN_SECONDS = 120.0
"""Time for the operator's webhook to become available again after the cluster lost a node."""
_REFUSALS = frozenset({400, 403, 404, 413, 422})


@dataclass(frozen=True)
class Training:
    """All attempts at one run."""

    api: JobApi
    submission: Submission
    facts: Mapping[str, Any]  # its provenance (`jobs.records.history.provenance`)
    logs: Archive
    context: Context
    cost: TrainingCost | None = None  # of its nodes, if known
    pulls: RefusedPulls | None = None  # image pulls that were refused but may still be authorised
    note: Callable[..., None] | None = None  # a waiter's, which also adopts a job that has ended
    clock: Callable[[], float] = time.monotonic  # of `Wait`

    @classmethod
    def of(
        cls, run: Mapping[str, Any], api: JobApi, logs: Archive, context: Context, **more: Any
    ) -> Self:
        """Return the training for a run's inputs, which include its `facts` and `succeeded`."""
        submission = replace(Submission.from_inputs(run), succeeded=run["succeeded"])
        cost = TrainingCost(**run["cost"]) if "cost" in run else None
        pulls = RefusedPulls.from_inputs(run)
        return cls(api, submission, run["facts"], logs, context, cost, pulls, **more)

    def to_the_end(self) -> RunResult:
        """Submit the job and wait for it, as often as its retries allow; return the last result.

        If the API server refuses the job, the result states that.

        Raises:
            ApiException: the API server failed to create the job.
            Unreachable: the API server is not responding.
            InterruptedWait: see `Wait.to_the_end`.
        """
        job = self.submission.job
        before: list[Attempt] = []
        while True:
            if self.note is not None:
                self.note(submitted="false")  # until the job of an earlier attempt is replaced
            try:
                api = self.api.retrying(_RETURN_SECONDS) if before else self.api
                live = submit(
                    *(api, self.submission, self.facts, self.context, before),
                    takes_ended=self.note is not None,
                )
            except ApiException as error:
                if error.status not in _REFUSALS:
                    raise
                result = RunResult(
                    state="CannotStart",
                    reason=f"refused: {api_message(error)}",
                    world_size=Topology.of_declared(declaration(job)).world_size,
                    exit_codes={},
                )
                return retry.complete(result, before, self.submission.succeeded)
            if self.note is not None:
                self.note(submitted="true")
            before = retry.earlier(live)
            number = len(before) + 1
            attempt = f"attempt {number} of {max(number, job.retries + 1)}"
            result = self._wait(live, before, f"{attempt}: " if job.retries > 0 else "")
            reason = retry.curable(result, job.retry_on or ("lostNode",))
            if reason is None or len(before) >= job.retries:
                return result
            before = retry.with_ended(before, result, reason)
            # If this process is killed now, the job that remains records its own attempt.
            self.api.patch({"metadata": {"annotations": retry.annotations(before)}})
            is_lost = result.failure is not None and result.failure.disruption
            word = "was lost" if is_lost else "failed"
            self.context.warn(f"{attempt} {word}: {before[-1]['reason']}. Resubmitting")

    def _wait(self, live: Object, before: Sequence[Attempt], prefix: str) -> RunResult:
        """Wait for an attempt, and record and return its result; `prefix` begins its status."""
        run_id, history, declared = str(run_of(live)), History(self.logs), self.submission.job
        self.logs.keep([run_id, *(each["run_id"] for each in before if "run_id" in each)])
        begun = str(live["metadata"].get("creationTimestamp"))
        history.begin(Record(run_id=run_id, submitted=begun, provenance=self.facts))
        kept = self.logs.run(run_id)
        limits = (self.cost, self.pulls, prefix, self.clock)
        wait = Wait(self.api, live, declared, self.context, kept, *limits)
        result = retry.complete(wait.to_the_end(), before, retry.last_succeeded(live))
        result = added(result, kept, declared.metrics, self.context.warn)
        if printed := unreported(kept, result):
            self.context.info(f"reported no metrics but printed {printed}; `up` then reads its log")
        if declared.drill is not None:
            runs = (self.logs.run(each["run_id"]) for each in before if "run_id" in each)
            is_elastic = declared.elastic is not None
            drill = retry.recovery(declared.drill, [*runs, kept], is_elastic=is_elastic)
            result = replace(result, drill=drill)
        history.end(run_id, result.as_map())
        return result
