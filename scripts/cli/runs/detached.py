"""Runs that a waiter in their cluster waits for: `make wait JOB=…`, and what it has written."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kubernetes.config import ConfigException

from core.context import Silence
from core.kube import REQUEST_ERRORS, api_message
from jobs.observe.wait import InterruptedWait
from jobs.records import archive
from jobs.result import RUNNING
from jobs.run.ledger import Ledger
from scripts.cli.config import require_job
from scripts.cli.runs import results
from scripts.cli.state import JobState, StackState, read_state
from scripts.cli.terminal import CommandError, echo

_ANSWER_SECONDS = 5.0


@dataclass
class _Lines(Silence):
    """A `Context` that prints each message once."""

    _seen: set[str] = field(default_factory=set)

    def status(self, message: str) -> None:
        if message not in self._seen:
            self._seen.add(message)
            echo(message)

    info = warn = status


def wait(stack: str, job: str) -> int:
    """Follow a run until it has ended, and print how; exits with 1 unless it passes its gate."""
    state = read_state(stack, secrets=True)
    require_job(stack, job, state.jobs)
    found = state.jobs[job]
    if found.result is None or found.result.state == RUNNING:
        ledger = _ledger(state, found)
        try:
            if ledger is None or ledger.known() is None:
                raise CommandError(
                    f"Job {job} has no waiter: `make up STACK={stack}` waits for its run, and "
                    f"`make logs JOB={job} STACK={stack}` follows it."
                )
            ledger.follow(_Lines(), archive.of_job(stack, job), to_the_end=True)
        except REQUEST_ERRORS as error:
            raise CommandError(f"The cluster of {stack}: {api_message(error)}") from error
        except InterruptedWait as error:
            raise CommandError(str(error)) from error
    return results.summarize(stack, 0, job)


def caught_up(stack: str, state: StackState, jobs: Iterable[JobState]) -> StackState:
    """Return a state, with a kubeconfig, as it is with what the waiters of some jobs have written.

    What is kept of their runs is fetched; a cluster that does not answer has nothing new.
    """
    known = dict(state.jobs)
    for job in jobs:
        with suppress(*REQUEST_ERRORS, ConfigException):
            ledger = _ledger(state, job)
            result = ledger.catch_up(archive.of_job(stack, job.name)) if ledger else None
            if result is not None and job.result is not None and job.result.state == RUNNING:
                known[job.name] = replace(job, result=result)
    return replace(state, jobs=known)


def _ledger(state: StackState, job: JobState) -> Ledger | None:
    if state.kubeconfig is None:
        return None
    return Ledger.connect(state.kubeconfig, job.namespace, job.name).retrying(_ANSWER_SECONDS)
