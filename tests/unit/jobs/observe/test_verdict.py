"""When a run has ended, and how, from nothing but what the API server shows."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from jobs.api.lines import Line
from jobs.model.job import TrainingJob
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of, is_stuck
from jobs.result import End
from tests.unit.jobs_objects import (
    REFUSED_LOGIN,
    RUNNING,
    beside,
    clock,
    declared,
    done,
    ended,
    job,
    node,
    pod,
    runs,
    seen,
    summary,
    waiting,
)
from tests.unit.not_none import not_none

DECLARED = declared(timeout=600, start_timeout=60, backoff_limit=0)
CODE_3 = "rank 1 (mine-worker-0) exited with code 3"


def deleted(of: str | dict[str, Any], *pods: dict[str, Any]) -> RunState:
    """Return a run whose job is removed, by a user or by its TTL."""
    tracked = seen(of, *pods)
    tracked.see_jobs([])
    return tracked


def fails(rank: int, code: int = 3, message: object = "", **told: Any) -> dict[str, Any]:
    return pod(rank, state=ended(code, message, **told))


def blocked(rank: int, why: str = "ErrImagePull", message: str = "not found") -> dict[str, Any]:
    return pod(rank, state=waiting(why, message), phase="Pending")


def refused(rank: int) -> dict[str, Any]:
    """A pod whose image the cluster's registry does not let its node have."""
    return blocked(rank, "ImagePullBackOff", REFUSED_LOGIN)


def worker(index: int, **shown: Any) -> dict[str, Any]:
    """A pod of an elastic job, which has no Master."""
    return pod(index, master=False, **shown)


def elastic(*pods: dict[str, Any], condition: str = "Running") -> RunState:
    return seen(job(condition, workers=3, elastic=True, message="backoff limit"), *pods)


def numbers(replicas: Iterable[Replica] | None) -> list[int]:
    return [each.number for each in replicas or ()]


def goes_on(run: RunState, *at: float, limits: TrainingJob = DECLARED) -> bool:
    return [end_of(run, each, limits) for each in at] == [None] * len(at)


def the_end(run: RunState, *at: float, limits: TrainingJob = DECLARED) -> End:
    """Return how a run has ended at the last of these seconds, which it had not before."""
    assert goes_on(run, *at[:-1], limits=limits)
    return not_none(end_of(run, at[-1], limits))


def assert_ends(run: RunState, at: Sequence[float], pattern: str) -> None:
    """Check that a run ends at the last of these seconds, as a pattern of state and reason says."""
    end = the_end(run, *at)
    advice = "" if end.advice == End("Failed", "").advice else f"; {end.advice}"
    text = f"{end.state}: {end.reason}{advice}"
    assert fnmatchcase(text, pattern), text


COMING = pod(1, init=RUNNING, phase="Pending")
AGAIN = pod(1, state=ended(0, summary(1)), last=ended(1), restarts=1)
LOST = pod(1, state=ended(137), phase="Failed")
LEAVES = {**LOST, "metadata": {**LOST["metadata"], "deletionTimestamp": "now"}}
EVICTED = pod(1, state=ended(137), phase="Failed")
EVICTED["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
BLOCKED_INIT = pod(1, init=waiting("ErrImagePull", "not found"), state=waiting("PodInitializing"))
FAILED_INIT = pod(1, init=ended(2), phase="Failed", restart_policy="Never")
TWICE_FAILED_INIT = pod(1, init=ended(1))
TWICE_FAILED_INIT["status"]["initContainerStatuses"][0]["restartCount"] = 1
LOOPING = pod(1, state=waiting("CrashLoopBackOff"), last=ended(3), restarts=2)
AGAIN_UNFIT = {**TWICE_FAILED_INIT, "metadata": {**LOST["metadata"], "uid": "2"}}
AGAIN_UNFIT["metadata"]["creationTimestamp"] = clock(9)
FULL = {"type": "PodScheduled", "status": "False", "message": "1 Insufficient memory."}
NO_ROOM = pod(0, conditions=[FULL], phase="Pending")
NO_NAME = "pull access denied, repository does not exist: insufficient_scope: authorization failed"
NO_SPEC, NO_SECRET = "CreateContainerConfigError", 'secret "database" not found'
FIRST, SECOND = fails(1, finished=clock(19)), fails(0, 1, finished=clock(20))
EARLY = fails(0, 0, finished=clock(50))
GONE = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 8000ms for recv"
MISSED_IT = pod(1, state=ended(1, GONE), last=ended(1, GONE, finished=clock(55)), restarts=1)
DONE = job("Succeeded", message="it is done")
LATE = job("Failed", message="it was active longer than specified deadline")
BESIDE = [beside(fails(rank, 0, summary(rank))) for rank in (0, 1)]
FAILED_BESIDE = beside(pod(1, state=ended(3), restart_policy="Never"))
OUTLASTED = "every rank exited with 0; container proxy was still running in 2 pods and was stopped"
NO_OPERATOR = "the training operator did not react to that for 60 s; *kubectl get pods,events*"
LOSSES = [worker(0, state=ended(137, finished=clock(20))), worker(1, state=ended(1))]


@pytest.mark.parametrize(
    ("run", "at", "end"),
    [
        # It succeeds once the operator says so and every rank exited with 0.
        (seen(job("Created", "Succeeded"), done(0), done(1)), [10], "Succeeded: "),
        (seen("Succeeded", done(0), AGAIN), [10], "Succeeded: "),
        # The operator calls a job Succeeded when rank 0 is done: the others are waited for.
        (seen("Succeeded", done(0), runs(1)), [100, 129, 131], "Failed: rank 1 did not finish*"),
        (seen("Succeeded", done(0), COMING), [61], "CannotStart: not all ranks started within*"),
        (seen("Succeeded", done(0), blocked(1)), [1], "CannotStart: rank 1*ErrImagePull*"),
        (seen("Succeeded", done(0), fails(1)), [10], f"Failed: {CODE_3}, although rank 0 *"),
        (seen("Succeeded", EARLY, MISSED_IT), [10], "Failed: *, which made 1 replica fail"),
        # It makes no pod any more.
        (seen("Succeeded", done(0)), [10, 41], "Failed: rank 1 did not finish*"),
        # The first rank to fail is named, and not those that followed; of an elastic job the last.
        (seen("Failed", SECOND, FIRST), [10], f"Failed: {CODE_3}"),
        (elastic(*LOSSES, condition="Failed"), [9], "Failed: rank 1 (mine-worker-1) *with code 1"),
        # A container fails before the program, which is known until it is got over, or its image
        # can't be had.
        (seen("Failed", runs(0), FAILED_INIT), [1], "CannotStart: *tcp-wait exited with code 2"),
        (seen("Failed", runs(0), FAILED_INIT, COMING), [1], "CannotStart: *exited with code 2"),
        (seen("Failed", runs(0), FAILED_INIT, runs(1)), [1], "Failed: "),
        (seen("Created", TWICE_FAILED_INIT), [1], "CannotStart: *tcp-wait keeps failing"),
        (seen("Created", BLOCKED_INIT), [1], "CannotStart: *tcp-wait:1*"),
        (seen("Created", blocked(0)), [1], "CannotStart: *example.org/mine:1: *job's `image`*"),
        (seen("Created", blocked(0, "InvalidImageName", "no")), [1], "*: InvalidImageName: no; *"),
        # Beside a login that a new role may still allow, a name that does not exist, which Docker
        # Hub reports as a refusal.
        (seen("Created", refused(0), blocked(1)), [1], "*ErrImagePull: not found; *"),
        (seen("Created", refused(0), blocked(1, message=NO_NAME)), [1], f"*: {NO_NAME}; *"),
        (seen("Created", blocked(0, message="EOF")), [59, 61], "*: not all*: EOF; *job's `image`*"),
        (seen("Created", blocked(1, NO_SPEC, NO_SECRET)), [1], f"*: {NO_SECRET}; *job's `env`*"),
        # A program keeps failing: the reason is as when the operator is the first to say so.
        (seen("Created", LOOPING), [1], f"Failed: {CODE_3}"),
        # Pods are never made or find no node, or a limit is over, the operator's own as well.
        (seen("Created"), [59, 61], "CannotStart: *2 pods to be created; *watches this namespace*"),
        (seen("Created", NO_ROOM), [59, 61], "CannotStart: *; 1 Insufficient*`startTimeout`*"),
        # A pod that replaces one has the same time.
        (seen("Running", runs(0), pod(1, created=clock(2, 5))), [359, 361], "CannotStart: not*"),
        (seen("Succeeded", done(0), runs(1)), [601], "TimedOut: unfinished after 600 s*`timeout`*"),
        (seen(LATE, runs(0)), [1], "TimedOut: unfinished after 600 s: it was active longer*"),
        # Its node may have evicted the operator as well, so that nobody acts on a failed pod.
        (seen("Running", runs(0), EVICTED), [100, 159, 160], f"Failed: *memory; {NO_OPERATOR}"),
        # To Kubernetes and the operator a pod runs as long as a container that a webhook added.
        (seen("Running", *BESIDE), [100, 104, 105], f"Succeeded: {OUTLASTED}"),
        (seen("Running", runs(0), FAILED_BESIDE), [1, 6], f"Failed: {CODE_3}; container proxy*"),
        # A job is removed while it runs, or as the operator completes it.
        (deleted("Created", runs(0)), [1], "Failed: *deleted*"),
        (deleted("Running", done(0), done(1)), [1], "Succeeded: *"),
        (deleted(DONE, done(0), runs(1)), [1], "Succeeded: it is done"),
        (deleted(DONE, done(0), fails(1, 143)), [1], "Succeeded: it is done"),
        (deleted("Succeeded", done(0), fails(1)), [1], f"Failed: {CODE_3}*"),
    ],
)
def test_a_run_ends_by_its_job_its_pods_and_its_limits(
    run: RunState, at: list[float], end: str
) -> None:
    assert_ends(run, at, end)


def test_ranks_that_begin_or_print_after_rank_0_is_done_are_at_work() -> None:
    """A program that exchanges nothing may take any time on each rank."""
    tracked = seen("Succeeded", done(0), COMING)
    assert goes_on(tracked, 1, 31, 60)
    tracked.see_pods([done(0), runs(1)])
    assert goes_on(tracked, 61, 90)
    prints(tracked, 1, 0, "a line of a log")
    silent = "rank 1 did not finish: silent for 30 s after rank 0 succeeded*"
    assert_ends(tracked, [95, 124, 126], f"Failed: {silent}")
    tracked.see_pods([done(0), done(1)])
    assert the_end(tracked, 127) == End("Succeeded", "")


def test_a_rank_that_broke_is_named_though_its_new_pod_waits_for_a_rank_0_that_is_done() -> None:
    tracked = seen("Created", runs(0), pod(1, state=ended(3), phase="Failed"))
    tracked.see_jobs([job("Succeeded")])
    tracked.see_pods([done(0), pod(1, init=RUNNING, phase="Pending", created=clock(0, 30))])
    assert the_end(tracked, 1, 30, 32) == End("Failed", f"{CODE_3}, although rank 0 succeeded")


def test_a_run_ends_once_its_node_is_lost_for_good_and_a_retry_may_cure_that() -> None:
    tracked = seen("Running", runs(0), runs(1))
    for at, ready in ((1, "Unknown"), (25, "True"), (30, "False")):
        tracked.see_nodes([node("node", ready)])
        assert goes_on(tracked, at)
    lost = "node node, which pod mine-master-0 was running on, is gone or not Ready"
    assert lost in tracked.status
    assert the_end(tracked, 59, 60) == End("Failed", "a node was lost for more than 30 s")
    assert "node node" in str(tracked.cured_by_a_retry)
    others = elastic(*(worker(index, state=RUNNING) for index in range(3)))
    others.see_nodes([])
    assert goes_on(others, 1, 100), "an elastic job goes on without it"


@pytest.mark.parametrize(
    ("first", "follows"),
    [(ended(1, "RuntimeError: Connection closed by peer"), True), (ended(3), False)],
)
def test_a_lost_node_explains_peers_that_die_of_it_and_no_failure_of_a_program(
    first: dict[str, Any], follows: bool
) -> None:
    tracked = seen("Failed", pod(0, state=first, phase="Failed"), runs(1))
    assert (tracked.cause_may_be_to_come, tracked.cured_by_a_retry) == (follows, None)
    tracked.see_nodes([])
    assert not tracked.cause_may_be_to_come
    why = "which pod mine-worker-0 was running on" if follows else "None"
    assert why in str(tracked.cured_by_a_retry)


def test_a_failed_pod_that_is_replaced_ends_nothing_and_its_start_counts() -> None:
    tracked = seen("Running", runs(0), LOST)
    assert goes_on(tracked, 100)
    tracked.see_pods([pod(1, state=waiting("ContainerCreating"), created=clock(2))])
    assert goes_on(tracked, 400, 600)
    assert_ends(tracked, [601], "TimedOut: *")


def test_a_failure_is_known_before_the_operator_knows_and_after_the_pod_is_gone() -> None:
    tracked = seen("Created", fails(1))
    tracked.see_pods([runs(1, last=ended(3), restarts=1)])
    assert [str(failure) for failure in tracked.failures] == [CODE_3], "it counts once"
    tracked.see_pods([])
    tracked.see_jobs([job("Failed", message="backoff limit")])
    assert the_end(tracked, 10).reason == CODE_3


def test_a_login_that_a_new_role_may_still_allow_is_waited_for_and_not_for_ever() -> None:
    """Azure applies a role after up to ten minutes, which is more than the limit for the start."""
    limits = declared(timeout=3600, start_timeout=60)
    end = the_end(seen("Created", refused(0), refused(1)), 5, 900, 906, limits=limits)
    assert (end.state, "401 Unauthorized" in end.reason) == ("CannotStart", True)
    allowed = seen("Created", refused(0), refused(1))
    assert goes_on(allowed, 300)
    allowed.see_pods([runs(0), pod(1, phase="Pending")])
    assert_ends(allowed, [359, 361], "CannotStart: not all ranks started*")


@pytest.mark.parametrize(
    ("reason", "message", "is_final"),
    [
        ("ErrImagePull", "dial tcp [::1]:80: connect: connection refused", True),
        (NO_SPEC, "couldn't find key password in Secret slipway-jobs/database", True),
        ("ErrImagePull", "toomanyrequests: You have reached your unauthenticated limit", False),
        ("ImagePullBackOff", 'Back-off pulling image "example.org/mine:1"', False),
        (NO_SPEC, "failed to sync secret cache: timed out waiting for the condition", False),
    ],
)
def test_a_start_that_the_kubelet_retries_is_waited_for_unless_no_retry_cures_it(
    reason: str, message: str, *, is_final: bool
) -> None:
    run = seen("Created", runs(0), blocked(1, reason, message))
    assert goes_on(run, 1, 59) is not is_final
    run.see_pods([runs(1)])
    assert goes_on(run, 90, 300)
    run.see_pods([blocked(1, reason, message)])
    assert goes_on(run, 400, 459) is not is_final
    assert_ends(run, [470], f"CannotStart: rank 1*{reason}*")


def test_a_new_job_of_the_same_name_is_not_this_run() -> None:
    tracked = seen("Created")
    tracked.see_jobs([job("Succeeded", uid="another")])
    tracked.see_pods([pod(0, state=ended(0), owner="another")])
    assert_ends(tracked, [1], "Failed: *deleted*")
    assert tracked.replicas == {}


def test_the_stages_of_all_pods_are_in_one_line() -> None:
    pods = (
        pod(0, state=waiting("PodInitializing"), init=RUNNING),
        pod(1, state=waiting("ContainerCreating"), phase="Pending"),
        pod(2, state=waiting("CrashLoopBackOff"), restarts=1),
        runs(3),
        done(4),
        fails(5),
    )
    assert seen(job("Running", workers=6), *pods).status == (
        "7 ranks: 1 waiting for rank 0, 1 starting, 1 restarting, 1 running, 1 done, 1 failed, "
        "1 to be created"
    )


def test_of_several_processes_the_one_that_reported_is_named() -> None:
    told = {"rank": 3, "error": "ValueError", "traceback": "..."}
    tracked = seen(job("Failed", processes=2), pod(1, state=ended(1, told)))
    assert tracked.status == "4 ranks, 2 in each pod: 1 failed, 1 to be created"
    assert the_end(tracked, 10).reason == "rank 3 (mine-worker-0) exited with code 1: ValueError"


def test_an_elastic_job_succeeds_once_all_its_ranks_have_ended() -> None:
    finished = [worker(1, state=ended(0)), worker(2, state=ended(0))]
    tracked = elastic(worker(0, state=RUNNING), *finished, condition="Succeeded")
    assert goes_on(tracked, 100)
    prints(tracked, 0, 0, "epoch 9")
    assert_ends(tracked, [600, 601], "TimedOut: unfinished after 600 s*")
    tracked.see_pods([worker(0, state=ended(137))])
    assert_ends(tracked, [101], "Succeeded: *")


THREE = [worker(index, state=RUNNING) for index in range(3)]
UNSET = "ValueError: environment variable RANK expected, but not set"


def failing(*starts: tuple[int, str], minutes: int = 0, code: int = 1) -> RunState:
    """An elastic run of three workers, whose programs failed one after the other: index, error."""
    tracked = elastic(*THREE)
    for second, (index, error) in enumerate(starts):
        last = ended(code, f"Traceback …\n{error}\n", finished=clock(10 + second, minutes))
        tracked.see_pods([worker(index, state=RUNNING, last=last, restarts=second + 1)])
    return tracked


@pytest.mark.parametrize("indices", [(0, 0, 0), (2, 1, 0, 2)])
def test_an_elastic_job_ends_after_equal_first_failures(indices: tuple[int, ...]) -> None:
    """After three at the earliest, whatever `maxRestarts` allows; numbers in it may vary."""
    starts = [(index, f"{UNSET}, port {index}") for index in indices]
    assert goes_on(failing(*starts[:-1]), 100)
    reason = f"*{UNSET}*; {len(indices)} identical failures in a row before any step"
    assert_ends(failing(*starts), [100], f"Failed: {reason}")


@pytest.mark.parametrize(
    "run",
    [
        # A container beside the program's is no reason.
        seen("Running", done(0), beside(runs(1))),
        seen("Running", done(0), beside(fails(1))),
        seen("Running", done(0), beside(fails(1, 0), ended(0))),
        seen("Running", done(0), done(1)),
        seen("Running", done(0), LEAVES),
        failing((0, UNSET), code=137),
        failing((0, UNSET), (1, UNSET), (2, UNSET)),
        failing((0, UNSET), (0, "KeyError: 'x'"), (0, UNSET)),
        failing(*[(0, UNSET)] * 3, minutes=5),
        failing(*[(0, "RuntimeError: Connection closed by peer")] * 3),
        failing(*[(0, "")] * 3, code=137),
        elastic(*THREE, worker(2, state=waiting("ErrImagePull", "not found"), created=clock(9))),
        elastic(*THREE, AGAIN_UNFIT),
    ],
    ids=[
        *("the other rank runs", "its pod may restart", "both containers ended", "all ended well"),
        *("a pod is being replaced", "an elastic job lost a replica", "no restart has failed yet"),
        *("another error is between", "each ran for minutes", "they lost a peer", "were killed"),
        *("a replacement has no image", "a replacement's init container fails"),
    ],
)
def test_a_run_goes_on_where_its_pods_may_or_have_done(run: RunState) -> None:
    assert goes_on(run, 100, 200)


def test_a_program_that_has_made_a_step_has_the_restarts_that_its_job_allows() -> None:
    for tracked in (failing(*[(0, UNSET)] * 4), seen("Created", LOOPING)):
        tracked.progress.see(json.dumps({"event": "step", "step": 3}))
        assert goes_on(tracked, 1, 50)


def test_a_program_without_steps_may_use_all_its_restarts() -> None:
    tracked, patient = seen("Running"), replace(DECLARED, backoff_limit=3)
    for restarts, lasts in ((2, True), (3, False)):
        looping = waiting("CrashLoopBackOff")
        tracked.see_pods([runs(0), pod(1, state=looping, last=ended(1), restarts=restarts)])
        assert goes_on(tracked, 10, limits=patient) is lasts
    assert the_end(tracked, 10, limits=patient).state == "Failed"


_TRACE = 'Traceback (most recent call last):\n  File "/opt/script/train.py", line 40, in f\n'
_THREADS = (
    f"Exception in thread Thread-1 (_pin_memory_loop):\n{_TRACE}KeyError: 1\n\n"
    f"During handling of the above exception, another exception occurred:\n\n{_TRACE}"
    "ConnectionResetError: [Errno 104] Connection reset by peer\n"
)
_LEAKED = (
    "/usr/lib/x.py:254: UserWarning: resource_tracker: 6 leaked semaphores\n  warnings.warn(\n"
)
_GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/opt/script/train.py", line 2, in <module>
  |     raise ExceptionGroup("training", found)
  | ExceptionGroup: training (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: label 7
    +------------------------------------
"""


@pytest.mark.parametrize(
    ("terminated", "words"),
    [
        (ended(137, reason="OOMKilled"), "was killed: out of memory"),
        (ended(137), "exited with code 137 (SIGKILL)"),
        (ended(128, "no such file", reason="StartError"), "could not be started"),
        (ended(250), "exited with code 250"),
        (ended(7, f"{_TRACE}ValueError: label 7\n"), "exited with code 7"),
        *(
            (ended(1, log), f"exited with code 1{said}")
            for log, said in (
                ("Traceback …\n[rank1]: ValueError: label 7\n", ": ValueError: label 7"),
                ("Traceback …\ntorch.OutOfMemoryError: x\n\n", ": torch.OutOfMemoryError: x"),
                ("Traceback …\nKeyboardInterrupt\n", ": KeyboardInterrupt"),
                ("an Error: this is no exception\n", ""),
                (f"{_TRACE}ValueError: it\nof shard 3\n\n", ": ValueError: it, train.py:40"),
                (f"{_THREADS}{_TRACE}ValueError: it\n", ": ValueError: it, train.py:40"),
                (f"{_TRACE}ValueError: it\n{_THREADS}", ": ValueError: it, train.py:40"),
                (f"{_TRACE}ValueError: it\n{_LEAKED}", ": ValueError: it, train.py:40"),
                (_THREADS, ""),
                (_GROUP, ": ExceptionGroup: training (1 sub-exception), train.py:2"),
                ("ValueError: long ago\n" + "a line\n" * 10, ""),
            )
        ),
    ],
)
def test_a_ranks_exit_is_described_with_the_exception_that_ended_its_program(
    terminated: dict[str, Any], words: str
) -> None:
    assert str(seen("Created", pod(1, state=terminated)).cause) == f"rank 1 (mine-worker-0) {words}"


def test_who_its_peers_waited_for_in_vain_is_named() -> None:
    tracked = seen("Failed", fails(0, 1, GONE), runs(1))
    gave_up = f"rank 0 (mine-master-0) exited with code 1: {GONE}"
    end = the_end(tracked, 10)
    assert end.reason == f"rank 1 (mine-worker-0) did not respond to its peers: {gave_up}"
    assert is_stuck(tracked, end)
    assert numbers(tracked.hanging) == [1]
    several = seen(job("Failed", workers=2), fails(0, 1, GONE), runs(1), runs(2))
    assert the_end(several, 10).reason == gave_up, "none of several that went on is accused"
    assert numbers(several.hanging) == [1, 2]


def suspended(*conditions: str, resumed_at: int | None = None) -> dict[str, Any]:
    """The job as the operator shows it, created at minute 0: suspended, or resumed at a minute."""
    is_suspended, shown = resumed_at is None, job("Created", *conditions)
    shown["spec"]["runPolicy"] = {"suspend": is_suspended}
    at = clock(0, 5 if resumed_at is None else resumed_at)
    condition = {"type": "Suspended", "status": str(is_suspended), "lastTransitionTime": at}
    shown["status"]["conditions"].append(condition)
    return shown


def stopped(rank: int) -> dict[str, Any]:
    """A pod that the operator deleted, whose program obeyed SIGTERM."""
    found = pod(rank, state=ended(143))
    found["metadata"]["deletionTimestamp"] = clock(0, 5)
    return found


def test_a_run_that_is_suspended_goes_on_with_new_pods_and_its_pause_does_not_count() -> None:
    """The pause is of minutes 5 to 30, `timeout` is 10 minutes, `startTimeout` one."""
    tracked = seen(job("Created", "Running"), runs(0), runs(1))
    assert goes_on(tracked, 299)
    tracked.see_jobs([suspended()])
    assert tracked.status == "2 ranks: suspended, until its `runPolicy.suspend` is unset"
    tracked.see_pods([stopped(0), stopped(1)])
    assert goes_on(tracked, 1799)
    tracked.see_jobs([suspended(resumed_at=30)])
    tracked.see_pods([stopped(0), stopped(1)])
    assert (tracked.failures, tracked.cured_by_a_retry) == ([], None)
    assert tracked.status == "submitted; 2 pods to be created"
    assert_ends(tracked, [1859, 1861], "CannotStart: not all ranks started within 60 s*")
    tracked.see_pods([runs(rank, created=clock(0, 30)) for rank in (0, 1)])
    assert tracked.status == "2 ranks: 2 running"
    assert_ends(tracked, [2399, 2401], "TimedOut: *")


def test_what_clean_pod_policy_removes_from_a_run_that_succeeded_has_not_failed() -> None:
    cleaned = replace(DECLARED, clean_pod_policy="Running")
    removed = seen("Succeeded", done(0), stopped(1))
    assert the_end(removed, 10, limits=cleaned) == End("Succeeded", "")
    assert the_end(removed, 10).state == "Failed"
    assert the_end(seen("Succeeded", done(0), fails(1)), 10, limits=cleaned).state == "Failed"


def test_pods_that_ended_before_the_suspension_was_seen_are_no_failure_either() -> None:
    """They are watched apart from the job."""
    tracked = seen(job("Created", "Running"), stopped(0), stopped(1))
    assert tracked.failures
    tracked.see_jobs([suspended()])
    tracked.see_jobs([suspended(resumed_at=6)])
    tracked.see_pods([stopped(0), stopped(1)])
    assert (tracked.failures, tracked.replicas) == ([], {})


def test_a_suspended_run_is_not_overdue_and_ends_after_its_resumption_as_any_other() -> None:
    assert goes_on(seen(suspended(), stopped(0)), 9000)
    failed = pod(1, state=ended(3), created=clock(0, 31))
    assert str(seen(suspended(resumed_at=30), failed).cause) == CODE_3
    tracked = seen("Running", done(0), done(1))
    tracked.see_jobs([suspended("Succeeded")])
    assert_ends(tracked, [10], "Succeeded: ")
    assert_ends(deleted(suspended()), [10], "Failed: *deleted*")


STALLING = declared(stall=60, start_timeout=60)
_STEP = '{"event": "step", "rank": 0}'


def prints(run: RunState, rank: int, second: int, *texts: str) -> None:
    stamp = f"2026-01-01T00:00:{second:02}.000000000Z"
    run.see_sign((rank, [Line(stamp, text) for text in texts]))


def two_ranks(rank_1: dict[str, Any] = RUNNING) -> RunState:
    return seen("Running", runs(0), pod(1, state=rank_1))


@pytest.mark.parametrize(
    ("printed", "at", "first"),
    [
        ([(50, 0, "epoch 1")], [51, 109, 111], []),
        ([(1, 0, _STEP)], [2, 62], []),
        ([(10, 1, _STEP), (30, 0, _STEP)], [31, 89, 91], [1]),
        ([(30, 1, _STEP), (30, 0, _STEP)], [31, 89, 91], []),
        ([(10, 0, _STEP), (10.5, 1, _STEP)], [70, 70.2, 70.5], []),
        ([(1, 1, _STEP), *((second, 0, "waiting") for second in (2, 30, 59))], [63], [1]),
    ],
    ids=[
        *("none prints", "the other may be the one", "one is first by over a second"),
        *("none is first", "one is silent a moment later, as it waits", "the others print"),
    ],
)
def test_ranks_that_print_nothing_stand_still_and_the_first_is_named_if_it_is_known(
    printed: list[tuple[float, int, str]], at: list[float], first: list[int]
) -> None:
    run = two_ranks()
    assert goes_on(run, 1, limits=STALLING)
    for second, rank, text in printed:
        prints(run, rank, int(second), text, text)
        assert goes_on(run, second, limits=STALLING)
    end = the_end(run, *at, limits=STALLING)
    who = "rank 1 (mine-worker-0)" if first else "every rank"
    assert (end.state, end.reason) == ("TimedOut", f"{who} stalled: nothing was printed for 60 s")
    assert is_stuck(run, end)
    assert goes_on(run, 0, limits=STALLING), "as a wait looks once more"
    assert (numbers(run.stalled), numbers(run.hanging)) == (first, [1, 0] if first else [0, 1])


def test_programs_that_import_their_packages_have_the_time_of_a_start() -> None:
    run, loading = two_ranks(), replace(STALLING, start_timeout=300)
    assert goes_on(run, 1, 62, 299, limits=loading)
    prints(run, 0, 0, "epoch 1")
    the_end(run, 301, 362, limits=loading)


def test_a_rank_that_never_reported_steps_has_ended_or_starts_may_be_silent() -> None:
    working, ending = two_ranks(), two_ranks(ended(0))
    prints(ending, 1, 1, _STEP, _STEP)
    for second in (1, 40, 80, 120):
        for run in (working, ending):
            prints(run, 0, second % 60, _STEP)
            assert goes_on(run, second, limits=STALLING)
    assert goes_on(two_ranks(waiting("ContainerCreating")), 1, 59, limits=STALLING)
    assert goes_on(two_ranks(), 1000, limits=declared(timeout=3600)), "off unless set"


def test_a_rank_with_a_debugger_stands_still_as_long_as_it_likes() -> None:
    debugged = replace(STALLING, debug=1, timeout=600)
    assert the_end(two_ranks(), 1, 70, 599, 601, limits=debugged).state == "TimedOut"
    assert goes_on(seen("Succeeded", done(0), runs(1)), 1, 70, 599, limits=debugged)


_EXIT = {"exitCode": 3, "reason": "Error", "finishedAt": clock(20)}


def holding(*pods: dict[str, Any], of: str = "Running", **ended: Any) -> RunState:
    """Return a run whose rank 1 is held, by what its launcher reports."""
    shown = job(of)
    shown["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = {"env": ["SLIPWAY_HOLD"]}
    run = seen(shown, *(pods or [runs(0), runs(1)]))
    message = json.dumps({"rank": 1, "error": "ValueError: bad", "at": "train.py:4"})
    told = {"terminated": {**_EXIT, "message": message, **ended}, "until": "12:00:00 UTC"}
    run.see_held((1, f"10%|# {json.dumps({'event': 'held', 'rank': 1, **told})}"))
    return run


def test_a_rank_that_is_held_has_failed_as_if_its_container_had_ended() -> None:
    run = holding()
    end = the_end(run, 20)
    failed = pod(1, state=ended(3, run.failures[0].exit.message))
    assert end == the_end(seen("Failed", runs(0), failed), 20)
    assert end.reason == f"{CODE_3}: ValueError: bad, train.py:4"
    assert run.held == {1: "`make shell JOB=mine RANK=1` until 12:00:00 UTC"}
    run.see_pods([pod(1, state=ended(3, container="containerd://1-0"))])
    assert len(run.failures) == 1, "its container's end is no other failure"
    run = holding(done(0), runs(1), of="Succeeded")
    assert the_end(run, 20).reason == f"{end.reason}, although rank 0 succeeded"

    peers = ended(1, {"rank": 0, "error": "reset", "from": "peer"}, finished=clock(19))
    pods = pod(0, state=peers), runs(1)
    assert seen("Failed", *pods).cause_may_be_to_come
    run = holding(*pods, of="Failed")
    assert not run.cause_may_be_to_come
    assert the_end(run, 20).reason == end.reason, "it explains those that lost it before"


def test_lines_like_a_launchers_of_other_programs_mean_nothing() -> None:
    assert not holding(exitCode="3").held
    assert not holding(runs(0), pod(1, state=waiting("ContainerCreating"))).held
    assert not holding(runs(0)).held
    plain = two_ranks()
    plain.see_held((1, json.dumps({"event": "held", "terminated": {**_EXIT, "message": ""}})))
    assert (plain.held, plain.failures) == ({}, [])


def test_an_init_container_that_succeeded_in_the_end_is_no_cause() -> None:
    succeeded = pod(0, init=ended(0), state=waiting("ErrImagePull"))
    assert seen("Created", pod(0, init=ended(2)), succeeded).failed_init is None
