"""Judges whether a run, its start, its last ranks, or the operator took too long. Pure."""

from dataclasses import dataclass

from jobs.judge.run_state import RunState
from jobs.result import End

_STRAGGLERS_SECONDS = 30
"""The operator calls a job Succeeded once rank 0 is done; the others may take so much longer."""
_OPERATOR_SECONDS = 60
"""The operator acts on a pod that failed at once; it may have to be started again before."""
_NODE_SECONDS = 30
"""A kubelet that was away for a moment comes back; Kubernetes itself gives up after 5 minutes.

https://kubernetes.io/docs/concepts/architecture/nodes/#condition
"""
_DEADLINE_MESSAGE = "active longer than specified deadline"
"""https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go"""
_RAISE_TIMEOUT = "raise the job's `timeout`, or give it less to do"
_SEE_OPERATOR = "see why it does not run with `kubectl get pods,events --all-namespaces`"
ASK_LESS = "ask for less `cpu`, `memory` or `workers`, or raise `startTimeout`"


@dataclass(frozen=True)
class Limits:
    """How long a run may take, in seconds since it was submitted."""

    total: float
    start: float


def overdue(run: RunState, elapsed: float, limits: Limits) -> End | None:
    """Return the end of a run that took too long in total, or to start; None otherwise.

    Args:
        run: What was seen of it.
        elapsed: Seconds since the job was submitted.
        limits: Of the run.
    """
    if elapsed > limits.total:
        reason = f"not done after {limits.total:g} s; {run.status}"
        return End("TimedOut", reason, _RAISE_TIMEOUT)
    if elapsed > limits.start and not run.all_started:
        return End("CannotStart", _not_started(run, limits.start), ASK_LESS)
    return None


def past_deadline(message: str, limits: Limits) -> End | None:
    """Return the end of a job that the operator failed for its deadline; None otherwise."""
    if _DEADLINE_MESSAGE not in message:
        return None
    return End("TimedOut", f"not done after {limits.total:g} s: {message}", _RAISE_TIMEOUT)


def operator_idle(run: RunState, elapsed: float) -> End | None:
    """Return the end of a run with a failed pod on which no operator acts; None otherwise.

    A node that is short of something evicts the operator, too.

    Args:
        run: What was seen of it.
        elapsed: Seconds since the job was submitted.
    """
    failed = [each for each in run.replicas.values() if each.has_failed and not each.is_deleted]
    is_idle = bool(failed) and not run.topology.elastic
    if run.lasted("a failed pod", elapsed, holds=is_idle) < _OPERATOR_SECONDS:
        return None
    what = run.failure or f"pod {failed[0].name} failed"
    reason = f"{what}; the training operator did not act on that for {_OPERATOR_SECONDS} s"
    return End("Failed", reason, _SEE_OPERATOR)


def node_lost(run: RunState, elapsed: float) -> End | None:
    """Return the end of a run that has lost a node for good; None otherwise.

    An elastic run goes on without it.

    Args:
        run: What was seen of it.
        elapsed: Seconds since the job was submitted.
    """
    is_lost = run.lost_node is not None and not run.topology.elastic
    if run.lasted("a lost node", elapsed, holds=is_lost) < _NODE_SECONDS:
        return None
    return End("Failed", run.failure or f"it lost a node for more than {_NODE_SECONDS} s")


def may_straggle(run: RunState, elapsed: float) -> bool:
    """Return whether the job's success was first seen less than 30 s ago."""
    return run.lasted("success", elapsed) < _STRAGGLERS_SECONDS


def _not_started(run: RunState, limit: float) -> str:
    waiting = {replica.unschedulable for replica in run.replicas.values()} - {None}
    parts = [f"not all ranks started within {limit:g} s; {run.status}"]
    parts += [] if run.shortage is None else [run.shortage.text]
    parts += [] if run.growth is None else [str(run.growth)]
    return "; ".join([*parts, *run.setbacks, *sorted(str(reason) for reason in waiting)])
