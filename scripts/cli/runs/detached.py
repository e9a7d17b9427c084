"""`make wait JOB=…`, and the results of detached runs, which pods in the cluster watch."""

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

_ANSWER_SECONDS = 5.0  # other commands do without an answer
_WAIT_SECONDS = 120.0


@dataclass
class _Lines(Silence):
    """A `Context` that prints each message only once."""

    _printed: set[str] = field(default_factory=set)

    def status(self, message: str) -> None:
        if message not in self._printed:
            self._printed.add(message)
            echo(message)

    info = warn = status


def wait(stack: str, job: str) -> int:
    """Follow a run until it finishes, and print its result; return 1 if the run or gate failed."""
    state = read_state(stack, secrets=True)
    require_job(stack, job, state.jobs)
    job_state = state.jobs[job]
    if job_state.result is None or job_state.result.state == RUNNING:
        try:
            ledger = _ledger(state, job_state, _WAIT_SECONDS)
            if ledger is None or ledger.read_values() is None:
                raise CommandError(
                    f"The run of job {job} is not detached. To wait for it, use `make up "
                    f"STACK={stack}`; to follow it, use `make logs JOB={job} STACK={stack}`."
                )
            ledger.follow(_Lines(), archive.of_job(stack, job), to_the_end=True)
        except (*REQUEST_ERRORS, ConfigException) as error:
            raise CommandError(f"{stack}'s cluster can't be used: {api_message(error)}") from error
        except InterruptedWait as error:
            raise CommandError(str(error)) from error
    return results.summarize(stack, 0, job)


def caught_up(stack: str, state: StackState, jobs: Iterable[JobState]) -> StackState:
    """Return `state` updated with the results of detached runs of `jobs` that have since finished.

    `state` must include the kubeconfig. The runs' records are also fetched. At the first request
    that fails, the rest are left as they are: an unreachable cluster would delay each of them.
    """
    jobs_by_name = dict(state.jobs)
    with suppress(*REQUEST_ERRORS, ConfigException):
        for job in jobs:
            ledger = _ledger(state, job, _ANSWER_SECONDS)
            result = ledger.catch_up(archive.of_job(stack, job.name)) if ledger else None
            if result is not None and job.result is not None and job.result.state == RUNNING:
                jobs_by_name[job.name] = replace(job, result=result)
    return replace(state, jobs=jobs_by_name)


def _ledger(state: StackState, job: JobState, seconds: float) -> Ledger | None:
    if state.kubeconfig is None:
        return None
    return Ledger.connect(state.kubeconfig, job.namespace, job.name).retrying(seconds)
