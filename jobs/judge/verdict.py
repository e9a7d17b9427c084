"""Judges whether what was seen of a run is its end, and which one. Pure."""

from jobs.judge import timeouts
from jobs.judge.replica import Replica
from jobs.judge.run_state import RunState, counted
from jobs.judge.timeouts import ASK_LESS, Limits, may_straggle
from jobs.result import End

_SEE_REFUSAL = "change what the message names, in the job or in the cluster"
_SEE_IMAGE = "see that the job's `image` exists and that its nodes may pull it"


def judge(run: RunState, elapsed: float, limits: Limits) -> End | None:
    """Return the run's end, None while it goes on.

    Args:
        run: What was seen of it.
        elapsed: Seconds since the job was submitted.
        limits: Of the run.
    """
    if run.gone:
        return End("Failed", "the PyTorchJob was deleted while it ran, not by Slipway")
    if (message := run.condition("Failed")) is not None:
        return _failed(run, message, limits)
    if (message := run.condition("Succeeded")) is not None:
        return _succeeded(run, message, elapsed)
    return (
        _never_starts(run)
        or timeouts.node_lost(run, elapsed)
        or timeouts.operator_idle(run, elapsed)
        or timeouts.overdue(run, elapsed, limits)
    )


def is_stuck(run: RunState, end: End) -> bool:
    """Return whether some of a run's ranks went on without getting anywhere."""
    return end.state == "TimedOut" or (end.state == "Failed" and len(run.silent) > 0)


def _failed(run: RunState, message: str, limits: Limits) -> End:
    if (late := timeouts.past_deadline(message, limits)) is not None:
        return late
    if run.cause is None and (init := run.failed_init) is not None:
        reason = f"{init.ranks} ({init.pod}): container {init.container} {init.exit}"
        return End("CannotStart", reason)
    return End("Failed", run.failure or message)


def _succeeded(run: RunState, message: str, elapsed: float) -> End | None:
    """Judge every replica by itself: the operator judges by the Master, or by any Worker."""
    if run.topology.elastic:
        # What replicas would do that were replaced at the end has been done.
        is_running = any(replica.running for replica in run.replicas.values())
        return None if is_running and may_straggle(run, elapsed) else End("Succeeded", message)
    ends = {number: replica.ended for number, replica in run.replicas.items()}
    if any(ended is not None and ended.code != 0 for ended in ends.values()):
        return End("Failed", _failed_beside_rank_0(run))
    missing = [number for number in range(run.topology.replicas) if ends.get(number) is None]
    if not missing:
        return End("Succeeded", message)
    if may_straggle(run, elapsed):
        return None
    cause = run.cause
    if cause is not None and cause.replica.number in missing:
        return End("Failed", _failed_beside_rank_0(run))
    listed = ", ".join(run.topology.ranks(number) for number in missing)
    reason = f"{listed} did not end within 30 s after rank 0 succeeded; {run.status}"
    return End("Failed", reason)


def _failed_beside_rank_0(run: RunState) -> str:
    cause = run.cause
    if cause is not None and cause.exit.code == 0:
        return f"{cause}, and took {counted(run.followers, 'replica')} along"
    return f"{cause}, although rank 0 succeeded"


def _never_starts(run: RunState) -> End | None:
    for replica in run.replicas.values():
        who = f"{replica.ranks} ({replica.name})"
        if replica.cannot_start is not None:
            return End("CannotStart", f"{who}: {replica.cannot_start}", _SEE_IMAGE)
        if replica.crash_loop is not None and _is_hopeless(run, replica):
            reason = f"{who}: container {replica.crash_loop} fails again and again"
            return End("CannotStart", reason)
    if run.all_started:
        return None
    if run.refusal is not None:
        return End("CannotStart", f"its pods are refused: {run.refusal}", _SEE_REFUSAL)
    is_growing = run.growth is not None and run.growth.coming
    if run.shortage is not None and run.shortage.final and not is_growing:
        return End("CannotStart", f"there is never room: {run.shortage.text}", ASK_LESS)
    return None


def _is_hopeless(run: RunState, replica: Replica) -> bool:
    """Return whether a container that fails again and again does so before any training.

    A user's program need not report steps; it has the restarts that its job allows.
    """
    allowed = run.job["spec"].get("runPolicy", {}).get("backoffLimit", 0)
    used = sum(each.restarts for each in run.replicas.values())
    return not run.progress.has_stepped and (not replica.started or used >= allowed)
