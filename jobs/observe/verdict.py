"""Decide whether a run has ended, and how, from its observed state."""

import re
from datetime import timedelta
from itertools import takewhile

from jobs.api.lines import moment
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import DEADLINE, is_suspended, message_of, resumed
from jobs.observe import gpus
from jobs.observe.exits import SIGNS
from jobs.observe.failures import Failure, Origin
from jobs.observe.run_state import RunState, counted
from jobs.plan import TrainingCost
from jobs.result import End

_STRAGGLERS_SECONDS = 30
"""Seconds for which other ranks may be silent after rank 0 has succeeded."""
_OPERATOR_SECONDS = 60
"""Time for the operator to act on a failed pod, including a restart of the operator."""
_NODE_SECONDS = 30
"""Time for a kubelet to reconnect; Kubernetes itself waits 5 minutes:
https://kubernetes.io/docs/concepts/architecture/nodes/#condition"""
_OUTLASTED_SECONDS = 5
"""Time for all containers in a pod to exit; the kubelet reports their exits together."""
_REPEATS = 3
_EARLY = timedelta(seconds=120)
"""After this time, even a program that reports no steps may have completed some."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
REMOVED = End("Failed", "the PyTorchJob was deleted while it was running, but not by Slipway")
_REMOVED_WHEN_DONE = End("Succeeded", "every rank exited with 0 before the PyTorchJob was deleted")
_RAISE_TIMEOUT = "raise the job's `timeout`, or give it less to do"
_RAISE_STALL = "find out what its ranks were waiting for, or raise the job's `stall`"
_USE_GPUS = "find out what those ranks were waiting for, or lower `minGpuUtilization`"
_ASK_LESS = "request less `cpu` or `memory`, or fewer `workers`, or raise `startTimeout`"
_MOST_NAMED = 8
_SEE_OPERATOR = "see if the operator runs and watches this namespace: `kubectl get pods,events -A`"
_SEE_REFUSAL = "fix what the message points out, in the job or in the cluster"
_IN_VAIN = re.compile(SIGNS["startsInVain"], re.IGNORECASE)


def end_of(
    run: RunState, elapsed: float, declared: TrainingJob, cost: TrainingCost | None = None
) -> End | None:
    """Return the outcome of a declared job's run, or None while it continues.

    `elapsed` is the time in seconds since submission, and `cost` the cost of the nodes.
    """
    if (message := message_of(run.job, "Failed")) is not None:
        return _failed(run, message, declared)
    if (message := message_of(run.job, "Succeeded")) is not None:
        # If a TTL or a user removed the job, a straggler's exit is unknown or due to SIGTERM.
        if run.job_deleted and (run.cause is None or run.cause.origin is not Origin.OWN):
            return End("Succeeded", message)
        return _succeeded(run, message, elapsed, declared)
    if run.job_deleted:
        return _REMOVED_WHEN_DONE if run.all_succeeded else REMOVED
    if is_suspended(run.job):
        return None
    return (
        (End("Failed", str(run.failure)) if run.held else None)
        or _outlasted(run, elapsed)
        or _repeats(run)
        or _never_starts(run, elapsed, declared)
        or _abandoned(run, elapsed)
        or _overdue(run, elapsed, declared)
        or _idle(run, declared, cost)
        or _stalled(run, elapsed, declared)
    )


def is_stuck(run: RunState, end: End) -> bool:
    """Return whether some of a run's ranks kept running without progress."""
    return end.state == "TimedOut" or (end.state == "Failed" and len(run.silent) > 0)


def _failed(run: RunState, message: str, declared: TrainingJob) -> End:
    if DEADLINE in message:
        return End("TimedOut", f"unfinished after {declared.timeout} s: {message}", _RAISE_TIMEOUT)
    if run.cause is None and (init := run.failed_init) is not None:
        return End("CannotStart", f"{init.replica}: container {init.container} {init.exit}")
    return End("Failed", run.failure or message)


def _succeeded(run: RunState, message: str, elapsed: float, declared: TrainingJob) -> End | None:
    """Return the outcome of a run that the operator calls a success, or None while it continues.

    Every replica is checked, since the operator considers only the Master or any single Worker.
    """
    elastic, replicas = run.topology.elastic, run.replicas.values()
    # The other ranks may start late, so their time counts from their last output. The replacement
    # of a pod that had started would wait for a rank 0 that has ended.
    all_begun = elastic or run.all_started or not any(replica.to_come for replica in replicas)
    is_silent = run.lasted("silence", elapsed, holds=all_begun) >= _STRAGGLERS_SECONDS
    may_straggle = declared.debug is not None or not is_silent
    if elastic:
        # Replicas that were replaced at the end have no work left.
        is_over = not may_straggle or not any(replica.running for replica in replicas)
        return End("Succeeded", message) if is_over else _timed_out(run, elapsed, declared)
    # With such a policy, the operator deletes pods once rank 0 is done, even if they are not.
    cause, cleans = run.cause, declared.clean_pod_policy != "None"
    cleans = cleans and (cause is None or cause.origin is not Origin.OWN)
    left = {n: each for n, each in run.replicas.items() if not (cleans and each.is_deleted)}
    ends = {number: each.ended for number, each in left.items()}
    numbers = [*left] if cleans else [*range(run.topology.replicas)]
    missing = [number for number in numbers if ends.get(number) is None]
    has_failed = bool(run.held) or any(each and each.code for each in ends.values())
    if not has_failed and not missing:
        return End("Succeeded", message)
    if not has_failed and may_straggle:
        return _never_starts(run, elapsed, declared) or _overdue(run, elapsed, declared)
    if not has_failed and (cause is None or cause.replica.number not in missing):
        listed = ", ".join(map(run.topology.ranks, missing))
        reason = f"{listed} did not finish: silent for 30 s after rank 0 succeeded; {run.status}"
        return End("Failed", reason)
    if cause is not None and cause.exit.code == 0:
        return End("Failed", f"{cause}, which made {counted(run.followers, 'replica')} fail")
    return End("Failed", f"{cause}, although rank 0 succeeded")


def _outlasted(run: RunState, elapsed: float) -> End | None:
    """Return the outcome of a run whose pods are kept running only by sidecar containers."""
    left = [each for each in run.replicas.values() if each.outlasting]
    failed = [each for each in left if each.ended is not None and each.ended.code != 0]
    # Such a failure is final unless the job is elastic.
    is_over = bool(left) and (run.all_succeeded or (bool(failed) and not run.topology.elastic))
    if run.lasted("an outlasting container", elapsed, holds=is_over) < _OUTLASTED_SECONDS:
        return None
    what = run.failure if failed else "every rank exited with 0"
    return End("Failed" if failed else "Succeeded", f"{what}; {outlasting(run)}")


def outlasting(run: RunState) -> str:
    """Describe containers that outlast the programs in their pods; empty if there are none."""
    left = [each.outlasting for each in run.replicas.values() if each.outlasting]
    names = ", ".join(sorted({name for each in left for name in each}))
    where = f"in {counted(len(left), 'pod')} and was stopped"
    return f"container {names} was still running {where}" if left else ""


def _repeats(run: RunState) -> End | None:
    """Return the outcome of an elastic run that repeats the same failure before its first step."""
    if not run.topology.elastic or run.progress.has_stepped or not run.failures:
        return None
    error = _early_error(run.failures[-1])
    same = [*takewhile(lambda each: _early_error(each) == error, reversed(run.failures))]
    is_restarted = len({each.replica.number for each in same}) < len(same)
    if error is None or len(same) < _REPEATS or not is_restarted:
        return None
    return End("Failed", f"{run.failure}; {len(same)} identical failures in a row before any step")


def _early_error(failed: Failure) -> str | None:
    """Return a program's own error, with numbers masked, if it occurred soon after the start."""
    ended, is_own = failed.exit, failed.origin is Origin.OWN
    is_late = ended.finished - ended.started >= _EARLY
    if not is_own or is_late or ended.out_of_memory or ended.signal is not None:
        return None
    text = ended.exception or ended.error or ended.message.strip().rpartition("\n")[2]
    return f"{ended.code} {_NUMBER.sub('0', text)}"


def _never_starts(run: RunState, elapsed: float, declared: TrainingJob) -> End | None:
    waits = run.refused_pulls if _waits_for_a_pull(run, elapsed) else []
    replicas = run.replicas.values()
    # The others continue without a replacement that can't start.
    goes_on = run.topology.elastic and run.all_started and any(each.running for each in replicas)
    blocked = [end for each in replicas if not (goes_on or each in waits) for end in each.blocked]
    # The kubelet retries, and shows the last failure until a retry, even a long one, has succeeded.
    is_late = run.lasted("a blocked start", elapsed, holds=bool(blocked)) > declared.start_timeout
    if final := [end for end in blocked if is_late or _IN_VAIN.search(end.reason)]:
        return final[0]
    used = sum(replica.restarts for replica in replicas)
    for replica in replicas:
        # A user's program may report no steps, so it gets all restarts that its job allows.
        is_used_up = used >= declared.max_restarts if replica.started else not goes_on
        if replica.crash_loop is not None and is_used_up and not run.progress.has_stepped:
            reason = f"{replica}: container {replica.crash_loop} keeps failing"
            # The operator is about to report the same failure, so the result must be the same.
            has_begun = replica.started and run.failure is not None
            return End("Failed", str(run.failure)) if has_begun else End("CannotStart", reason)
    if run.all_started:
        return None
    if run.refusal is not None:
        return End("CannotStart", f"its pods are refused: {run.refusal}", _SEE_REFUSAL)
    is_growing = run.growth is not None and run.growth.coming
    if run.shortage is not None and not is_growing:
        return End("CannotStart", f"it can never be scheduled: {run.shortage}", _ASK_LESS)
    return None


def _waits_for_a_pull(run: RunState, elapsed: float) -> bool:
    """Return whether refused pulls may still be authorised, which suspends the start timeout."""
    is_refused = bool(run.refused_pulls)
    lasted = run.lasted("a refused pull", elapsed, holds=is_refused)
    if run.pulls is None or not is_refused or lasted >= run.pulls.seconds:
        return False
    run.refused_until = max(run.refused_until, elapsed)
    return True


def _abandoned(run: RunState, elapsed: float) -> End | None:
    """Return the outcome of a run that lost a node or the operator; elastic runs continue.

    A node under pressure may evict the operator, too, so that failed pods are not replaced.
    """
    if run.topology.elastic:
        return None
    is_lost = run.lost_node is not None
    if run.lasted("a lost node", elapsed, holds=is_lost) >= _NODE_SECONDS:
        return End("Failed", run.failure or f"a node was lost for more than {_NODE_SECONDS} s")
    failed = [each for each in run.replicas.values() if each.has_failed and not each.is_deleted]
    if run.lasted("a failed pod", elapsed, holds=bool(failed)) < _OPERATOR_SECONDS:
        return None
    what = run.failure or f"pod {failed[0].name} failed"
    reason = f"{what}; the training operator did not react to that for {_OPERATOR_SECONDS} s"
    return End("Failed", reason, _SEE_OPERATOR)


def _timed_out(run: RunState, elapsed: float, declared: TrainingJob) -> End | None:
    reason = f"unfinished after {declared.timeout} s; {run.status}"
    is_over = elapsed - resumed(run.job) > declared.timeout
    return End("TimedOut", reason, _RAISE_TIMEOUT) if is_over else None


def _overdue(run: RunState, elapsed: float, declared: TrainingJob) -> End | None:
    if (end := _timed_out(run, elapsed, declared)) is not None or run.all_started:
        return end
    # A pod that replaces one has the same time to start.
    created = [moment(each.created) for each in run.replicas.values()]
    coming = [moment(each.created) for each in run.replicas.values() if each.to_come]
    later = (max(coming) - min(created)).total_seconds() if coming else 0.0
    if elapsed - max(run.refused_until, resumed(run.job) + later) <= declared.start_timeout:
        return None
    waiting = {each.unschedulable for each in run.replicas.values() if each.unschedulable}
    blocked = (end for each in run.replicas.values() for end in each.blocked)
    end = next(blocked, End("CannotStart", "", _ASK_LESS if run.replicas else _SEE_OPERATOR))
    reason = f"not all ranks started within {declared.start_timeout} s; {run.status}"
    reasons = (reason, str(run.growth or ""), *run.setbacks, *sorted(waiting), end.reason)
    return End("CannotStart", "; ".join(filter(None, reasons)), end.advice)


def _stalled(run: RunState, elapsed: float, declared: TrainingJob) -> End | None:
    """Return the outcome of a run in which one rank, or all, printed nothing for too long."""
    limit = declared.stall if declared.debug is None else None
    if limit is None or not run.all_started:
        return None
    if not run.see_stillness(elapsed, limit, declared.start_timeout):
        return None
    who = ", ".join(map(str, run.stalled or ())) or "every rank"
    return End("TimedOut", f"{who} stalled: nothing was printed for {limit} s", _RAISE_STALL)


def _idle(run: RunState, declared: TrainingJob, cost: TrainingCost | None) -> End | None:
    """Return the outcome of a run that left GPUs idle for too long, with the cost of that time."""
    replicas = run.idle
    least = declared.min_gpu_utilization if declared.debug is None else None
    if least is None or not replicas:
        return None
    uids = {each.uid for each in replicas}
    idle = [streak for (uid, _), streak in run.gpu_use.idle.items() if uid in uids]
    seconds = sum(each.seconds for each in idle)
    having = [each for each in run.replicas.values() if each.gpus]
    total = sum(each.gpus for each in having)
    who = ", ".join(str(each) for each in replicas[:_MOST_NAMED])
    more = f" and {len(replicas) - _MOST_NAMED} more" if len(replicas) > _MOST_NAMED else ""
    wasted = f"{seconds / 3600:.2f} GPU hours"
    if cost is not None:
        nodes = len({each.node for each in having})
        wasted += f", {cost.of_nodes(nodes / total, seconds)}"
    reason = (
        f"{len(idle)} of {counted(total, 'GPU')} stayed below {least}% for "
        f"{gpus.IDLE_SECONDS / 60:g} minutes, peaking at {max(each.highest for each in idle):g}%: "
        f"{who}{more}. That wasted {wasted}"
    )
    return End("TimedOut", reason, _USE_GPUS)
