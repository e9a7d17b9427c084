"""Trains a job to its end: submits it, waits, and tries again as its retries allow."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubernetes.client.exceptions import ApiException

from core.context import Context
from core.kube import api_message
from jobs.api.client import JobApi
from jobs.model.pytorchjob import run_of
from jobs.model.submission import Submission
from jobs.observe.outcome import refused
from jobs.observe.verdict import Limits
from jobs.observe.wait import Wait
from jobs.records import archive
from jobs.records.history import History, Record
from jobs.result import RunResult
from jobs.run import retry
from jobs.run.submit import submit

_RETURN_SECONDS = 120.0
"""How long a cluster that has lost a node may take until the operator's webhook answers again."""
_REFUSALS = frozenset({400, 403, 404, 413, 422})


def train(
    api: JobApi,
    submission: Submission,
    facts: Mapping[str, Any],
    limits: Limits,
    context: Context,
) -> RunResult:
    """Submit the job, as often as `retries` allows for what `retryOn` names, and wait.

    A refusal by the API server is a result, too. `facts` are what trains it
    (`jobs.records.provenance`).

    Raises:
        ApiException: the API server could not take it.
        Unreachable: no answer came.
        InterruptedWait: see `Wait.to_the_end`.
    """
    job, logs = submission.job, archive.of_urn(context.urn)
    history = History(logs)
    before: list[retry.Attempt] = []
    while True:
        try:
            patient = api.retrying(_RETURN_SECONDS) if before else api
            live = submit(patient, submission, facts, context, before)
        except ApiException as error:
            if error.status not in _REFUSALS:
                raise
            result = refused(api_message(error), job.world_size)
            return replace(result, attempts=before or None)
        before = retry.earlier(live)
        attempt, run_id = retry.named(len(before) + 1, job.retries), str(run_of(live))
        logs.keep([run_id, *(each["run_id"] for each in before if "run_id" in each)])
        begun = str(live["metadata"].get("creationTimestamp"))
        history.begin(Record(run_id=run_id, submitted=begun, provenance=facts))
        prefix = f"{attempt}: " if job.retries > 0 else ""
        kept = logs.run(run_id)
        wait = Wait(api, live, limits, api.age(live), context, job.on_cancel, kept, prefix)
        result = retry.complete(wait.to_the_end(), before)
        history.end(run_id, result.as_map())
        reason = retry.curable(result, job.retry_on or ("lostNode",))
        if reason is None or len(before) >= job.retries:
            return result
        before = retry.with_ended(before, result, reason)
        # Should this process be killed now, the remaining job records its attempt.
        api.patch({"metadata": {"annotations": retry.annotations(before)}})
        word = "failed" if result.failure is None or not result.failure.disruption else "was lost"
        context.warn(f"{attempt} {word}: {before[-1]['reason']}. The job is submitted anew")
