"""When a run has ended, and how, from nothing but what the API server shows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from clusters.cloud_reports import AZURE_LATE_ROLES
from jobs.api.lines import Line
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import Topology
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of, is_stuck
from jobs.result import End
from tests.unit.jobs_objects import (
    REFUSED_LOGIN,
    RUNNING,
    declared,
    ended,
    job,
    pod,
    summary,
    waiting,
)
from tests.unit.not_none import not_none

DECLARED = declared(timeout=600, start_timeout=60, backoff_limit=0)


def tracker(*pods: dict[str, Any], of: dict[str, Any] | None = None) -> RunState:
    tracked = RunState(job("Created"), AZURE_LATE_ROLES)
    if of is not None:
        tracked.topology = Topology.of_object(of)
        tracked.see_jobs([of])
    tracked.see_pods(pods)
    return tracked


def the_end(run: RunState, at: float, limits: TrainingJob = DECLARED) -> End:
    """Return how a run has ended after `at` seconds, which it has."""
    return not_none(end_of(run, at, limits))


def assert_ends(run: RunState, at: float, state: str, reason: str) -> None:
    """Check that a run has ended after `at` seconds in a state, for a reason with these words."""
    end = the_end(run, at)
    assert end.state == state
    assert reason in end.reason


def done(rank: int) -> dict[str, Any]:
    return pod(rank, state=ended(0, summary(rank)), phase="Succeeded")


def test_a_running_job_has_no_end() -> None:
    running = tracker(pod(0, state=RUNNING), pod(1, state=RUNNING), of=job("Created", "Running"))
    assert end_of(running, 300, DECLARED) is None
    assert running.status == "2 ranks: 2 running"


def test_it_succeeds_once_the_operator_says_so_and_every_rank_exited_with_0() -> None:
    end = the_end(tracker(done(0), done(1), of=job("Created", "Succeeded")), 10)
    assert end.state == "Succeeded"


def test_ranks_that_end_after_rank_0_are_waited_for_but_not_for_ever() -> None:
    """The operator calls a job Succeeded when rank 0 is done."""
    tracked = tracker(done(0), pod(1, state=RUNNING), of=job("Succeeded"))
    assert end_of(tracked, 100, DECLARED) is None
    assert end_of(tracked, 129, DECLARED) is None
    assert_ends(tracked, 131, "Failed", "rank 1 did not finish")


def test_ranks_that_begin_or_print_after_rank_0_is_done_are_at_work() -> None:
    """A program that exchanges nothing may take any time on each rank."""
    waits = pod(1, init=RUNNING, phase="Pending")
    tracked = tracker(done(0), waits, of=job("Succeeded"))
    assert [end_of(tracked, at, DECLARED) for at in (1, 31, 60)] == [None] * 3
    tracked.see_pods([done(0), pod(1, state=RUNNING)])
    assert [end_of(tracked, at, DECLARED) for at in (61, 90)] == [None] * 2
    tracked.see_sign((1, [Line("2026-01-01T00:00:00.000000000Z", "a line of a log")]))
    assert [end_of(tracked, at, DECLARED) for at in (95, 124)] == [None] * 2
    end = the_end(tracked, 126)
    assert end.reason.startswith("rank 1 did not finish: silent for 30 s after rank 0 succeeded")
    tracked.see_pods([done(0), done(1)])
    assert end_of(tracked, 127, DECLARED) == End("Succeeded", "")


@pytest.mark.parametrize(
    ("late", "at", "state", "words"),
    [
        (pod(1, init=RUNNING, phase="Pending"), 61, "CannotStart", "not all ranks started within"),
        (pod(1, init=waiting("ErrImageNeverPull"), phase="Pending"), 1, "CannotStart", "rank 1"),
        (pod(1, state=RUNNING), 601, "TimedOut", "unfinished after 600 s"),
    ],
)
def test_late_ranks_have_the_limits_of_any_run(
    late: dict[str, Any], at: float, state: str, words: str
) -> None:
    tracked = tracker(done(0), late, of=job("Succeeded"))
    end_of(tracked, at - 1, DECLARED)
    assert_ends(tracked, at, state, words)


def test_a_rank_that_broke_is_named_though_its_new_pod_waits_for_a_rank_0_that_is_done() -> None:
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=ended(3), phase="Failed"))
    waits = pod(1, init=RUNNING, phase="Pending", created="2026-01-01T01:00:00Z")
    tracked.see_jobs([job("Succeeded")])
    tracked.see_pods([done(0), waits])
    assert [end_of(tracked, at, DECLARED) for at in (1, 30)] == [None] * 2
    end = end_of(tracked, 32, DECLARED)
    reason = "rank 1 (mine-worker-0) exited with code 3, although rank 0 succeeded"
    assert end == End("Failed", reason)


def test_a_rank_whose_pod_never_came_is_not_waited_for() -> None:
    """The operator makes none once rank 0 is done."""
    tracked = tracker(done(0), of=job("Succeeded"))
    assert end_of(tracked, 10, DECLARED) is None
    assert the_end(tracked, 41).state == "Failed"


def test_a_rank_that_fails_beside_a_successful_master_fails_the_run() -> None:
    end = end_of(tracker(done(0), pod(1, state=ended(3)), of=job("Succeeded")), 10, DECLARED)
    assert end is not None
    assert end.state == "Failed"
    assert "rank 1 (mine-worker-0) exited with code 3" in end.reason


def test_a_failed_pod_that_no_operator_acts_on_ends_the_run() -> None:
    """Its node may have evicted the operator as well."""
    lost = pod(1, state=ended(137), phase="Failed")
    lost["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
    tracked = tracker(pod(0, state=RUNNING), lost, of=job("Running"))
    assert end_of(tracked, 100, DECLARED) is None
    assert end_of(tracked, 159, DECLARED) is None
    end = the_end(tracked, 160)
    assert end.state == "Failed"
    assert end.reason == (
        "rank 1 (mine-worker-0) was evicted by its node: The node was low on resource: memory; "
        "the training operator did not react to that for 60 s"
    )
    assert "kubectl get pods,events" in end.advice


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


def test_a_run_ends_once_its_node_is_lost_for_good_and_a_retry_may_cure_that() -> None:
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=RUNNING), of=job("Running"))
    for at, ready, ends in ((1, "Unknown", False), (25, "True", False), (30, "False", False)):
        tracked.see_nodes([node("node", ready)])
        assert (end_of(tracked, at, DECLARED) is not None) is ends
    assert (
        "node node, which pod mine-master-0 was running on, is gone or not Ready" in tracked.status
    )
    assert end_of(tracked, 59, DECLARED) is None
    end = the_end(tracked, 60)
    assert (end.state, end.reason) == ("Failed", "a node was lost for more than 30 s")
    assert tracked.goes_on
    assert "node node" in str(tracked.cured_by_a_retry)


def test_peers_that_die_of_a_lost_node_are_no_failure_of_their_own() -> None:
    lost = ended(1, "RuntimeError: Connection closed by peer")
    tracked = tracker(pod(0, state=lost, phase="Failed"), pod(1, state=RUNNING), of=job("Failed"))
    assert (tracked.cause_may_be_to_come, tracked.cured_by_a_retry) == (True, None)
    tracked.see_nodes([])
    assert not tracked.cause_may_be_to_come
    assert "which pod mine-worker-0 was running on" in str(tracked.cured_by_a_retry)


def test_a_node_that_goes_when_a_program_has_failed_by_itself_is_no_excuse() -> None:
    failed = pod(0, state=ended(3), phase="Failed")
    tracked = tracker(failed, pod(1, state=RUNNING), of=job("Failed"))
    tracked.see_nodes([])
    assert tracked.cured_by_a_retry is None


def test_an_elastic_run_outlives_a_node() -> None:
    tracked = elastic(*(worker(index, state=RUNNING) for index in range(3)))
    tracked.see_nodes([])
    assert end_of(tracked, 1, DECLARED) is None
    assert end_of(tracked, 100, DECLARED) is None


def test_a_failed_pod_that_is_replaced_or_of_an_elastic_job_ends_nothing() -> None:
    lost = pod(1, state=ended(137), phase="Failed")
    tracked = tracker(pod(0, state=RUNNING), lost, of=job("Running"))
    assert end_of(tracked, 100, DECLARED) is None
    tracked.see_pods([pod(1, state=RUNNING, created="2026-01-01T00:02:00Z")])
    assert end_of(tracked, 400, DECLARED) is None
    leaves = {**lost, "metadata": {**lost["metadata"], "deletionTimestamp": "now"}}
    for tracked in (
        tracker(pod(0, state=RUNNING), leaves, of=job("Running")),
        tracker(pod(0, state=RUNNING), lost, of=job("Running", elastic=True)),
    ):
        assert end_of(tracked, 100, DECLARED) is None
        assert end_of(tracked, 400, DECLARED) is None


def test_a_rank_that_failed_once_and_then_succeeded_is_forgiven() -> None:
    again = pod(1, state=ended(0, summary(1)), last=ended(1), restarts=1)
    assert the_end(tracker(done(0), again, of=job("Succeeded")), 10).state == "Succeeded"


def test_the_first_rank_to_fail_is_named_and_not_those_that_followed() -> None:
    tracked = tracker(
        pod(0, state=ended(1, finished="2026-01-01T00:00:20Z")),
        pod(1, state=ended(3, finished="2026-01-01T00:00:19Z")),
        of=job("Failed", message="2 replicas failed"),
    )
    assert the_end(tracked, 10).reason == "rank 1 (mine-worker-0) exited with code 3"


def test_within_the_same_second_the_rank_seen_first_is_the_first() -> None:
    tracked = tracker(pod(1, state=ended(3)))
    tracked.see_pods([pod(0, state=ended(1)), pod(1, state=ended(3))])
    assert [failure.rank for failure in tracked.failures] == [1, 0]


def test_a_failure_that_a_restart_made_good_is_not_the_one_that_ended_the_run() -> None:
    once = ended(3, finished="2026-01-01T00:00:10Z")
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=once))
    tracked.see_pods([pod(0, state=RUNNING), pod(1, state=RUNNING, last=once, restarts=1)])
    tracked.see_pods([pod(0, state=ended(4, finished="2026-01-01T00:20:00Z"))])
    assert tracked.cause is not None
    assert str(tracked.cause) == "rank 0 (mine-master-0) exited with code 4"


def test_of_one_replicas_failures_the_last_ended_the_run() -> None:
    twice = pod(1, state=ended(4), last=ended(3), restarts=1)
    tracked = tracker(pod(0, state=RUNNING), twice)
    assert tracked.cause is not None
    assert tracked.cause.exit.code == 4


def test_a_failure_is_known_before_the_operator_knows_and_after_the_pod_is_gone() -> None:
    tracked = tracker(pod(1, state=RUNNING, last=ended(3), restarts=1))
    assert [str(failure) for failure in tracked.failures] == [
        "rank 1 (mine-worker-0) exited with code 3"
    ]
    tracked.see_pods([])
    tracked.see_jobs([job("Failed", message="backoff limit")])
    assert the_end(tracked, 10).reason == "rank 1 (mine-worker-0) exited with code 3"


def test_each_exit_counts_once_however_often_it_is_seen() -> None:
    tracked = tracker(pod(1, state=ended(3)))
    tracked.see_pods([pod(1, state=RUNNING, last=ended(3), restarts=1)])
    assert len(tracked.failures) == 1


@pytest.mark.parametrize(
    ("terminated", "words"),
    [
        (ended(137, reason="OOMKilled"), "was killed: out of memory"),
        (ended(137), "exited with code 137 (SIGKILL)"),
        (ended(139), "exited with code 139 (SIGSEGV)"),
        (ended(128, "no such file", reason="StartError"), "could not be started"),
        (ended(250), "exited with code 250"),
    ],
)
def test_the_end_of_a_rank_is_described(terminated: dict[str, Any], words: str) -> None:
    (failure,) = tracker(pod(1, state=terminated)).failures
    assert str(failure) == f"rank 1 (mine-worker-0) {words}"


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_had_ends_the_run_at_once(reason: str) -> None:
    end = end_of(tracker(pod(0, state=waiting(reason, "not found"), phase="Pending")), 1, DECLARED)
    assert end is not None
    assert end.state == "CannotStart"
    assert "example.org/mine:1" in end.reason
    assert "not found" in end.reason
    assert "image" in end.advice


def refused(rank: int) -> dict[str, Any]:
    """A pod whose image the cluster's registry does not let its node have."""
    return pod(rank, state=waiting("ImagePullBackOff", REFUSED_LOGIN), phase="Pending")


def test_a_login_that_a_new_role_may_still_allow_is_waited_for_and_not_for_ever() -> None:
    """Azure applies a role after up to ten minutes, which is more than the limit for the start."""
    limits = declared(timeout=3600, start_timeout=60)
    tracked = tracker(refused(0), refused(1), of=job("Created"))
    assert end_of(tracked, 5, limits) is None
    assert end_of(tracked, 900, limits) is None
    end = the_end(tracked, 906, limits)
    assert (end.state, "401 Unauthorized" in end.reason) == ("CannotStart", True)


def test_ranks_have_their_usual_time_to_start_once_their_login_is_no_longer_refused() -> None:
    tracked = tracker(refused(0), refused(1), of=job("Created"))
    assert end_of(tracked, 300, DECLARED) is None
    tracked.see_pods([pod(0, state=RUNNING), pod(1, phase="Pending")])
    assert end_of(tracked, 359, DECLARED) is None
    assert "not all ranks started" in the_end(tracked, 361).reason


@pytest.mark.parametrize(
    "message",
    [
        # The registry lets the node in, and has no such image.
        'failed to resolve reference "mine.azurecr.io/mine:1": mine.azurecr.io/mine:1: not found',
        # There is no such registry.
        "dial tcp: lookup mine.azurecr.io: no such host",
        # Docker Hub refuses a login for a name that does not exist.
        "pull access denied, repository does not exist: insufficient_scope: authorization failed",
    ],
)
def test_a_name_that_does_not_exist_ends_a_run_at_once_beside_a_refused_login(message: str) -> None:
    """A pull that Azure's registry refuses while the nodes' role is new is waited for."""
    missing = pod(1, state=waiting("ErrImagePull", message), phase="Pending")
    assert_ends(tracker(refused(0), missing), 1, "CannotStart", message)


def test_the_image_of_an_init_container_counts_too() -> None:
    blocked = pod(1, init=waiting("ErrImagePull"), state=waiting("PodInitializing"))
    assert "tcp-wait:1" in the_end(tracker(blocked), 1).reason


def test_a_container_that_fails_before_the_program_is_named() -> None:
    failed = pod(1, init=ended(2), phase="Failed", restart_policy="Never")
    tracked = tracker(pod(0, state=RUNNING), failed, of=job("Failed", message="pod failed"))
    end = the_end(tracked, 1)
    assert end.state == "CannotStart"
    assert end.reason == "rank 1 (mine-worker-0): container tcp-wait exited with code 2"


def test_an_init_container_that_failed_is_known_while_it_is_tried_again() -> None:
    """The pod may tell nothing of the start before any more."""
    tracked = tracker(pod(0, init=ended(2, {"error": "no such file"})))
    tracked.see_pods([pod(0, init=RUNNING)])
    failed = not_none(tracked.failed_init)
    assert (failed.replica.name, failed.container, failed.exit.code) == (
        "mine-master-0",
        "tcp-wait",
        2,
    )
    tracked.see_pods([pod(0, init=ended(0), state=waiting("ErrImagePull"))])
    assert tracked.failed_init is None, "it was got over, and something else is the matter"


def test_a_crash_loop_ends_a_run_that_has_not_trained_yet() -> None:
    looping = pod(1, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=2)
    end = the_end(tracker(looping), 1)
    assert end.state == "Failed", "as when the operator is the first to say so"
    assert end.reason == "rank 1 (mine-worker-0) exited with code 1"
    trained = tracker(looping)
    trained.progress.see(json.dumps({"event": "epoch", "epoch": 1}))
    assert end_of(trained, 1, DECLARED) is None


def test_an_init_container_that_failed_is_no_matter_once_the_program_runs() -> None:
    tracked = tracker(pod(0, init=ended(2)))
    tracked.see_pods([pod(0, state=RUNNING)])
    assert tracked.failed_init is None


def test_an_init_container_that_failed_twice_ends_the_run_before_it_is_a_loop() -> None:
    once = pod(1, init=ended(1))
    assert end_of(tracker(once), 1, DECLARED) is None
    twice = pod(1, init=ended(1))
    twice["status"]["initContainerStatuses"][0]["restartCount"] = 1
    end = the_end(tracker(once, twice), 1)
    assert end.reason == "rank 1 (mine-worker-0): container tcp-wait keeps failing"


def test_a_run_without_a_node_is_shown_and_ends_after_its_start_limit() -> None:
    full = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.",
    }
    tracked = tracker(pod(0, conditions=[full], phase="Pending"))
    assert tracked.status == "2 ranks: 1 waiting for a node, 1 to be created"
    assert end_of(tracked, 59, DECLARED) is None
    end = the_end(tracked, 61)
    assert end.state == "CannotStart"
    assert "Insufficient memory" in end.reason
    assert "startTimeout" in end.advice


def test_pods_that_were_never_made_are_not_waited_for_beyond_the_start_limit() -> None:
    assert_ends(tracker(), 61, "CannotStart", "2 pods to be created")


def test_the_start_limit_is_over_once_every_rank_has_run() -> None:
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=waiting("x"), last=ended(1), restarts=1))
    assert end_of(tracked, 599, DECLARED) is None


def test_a_run_ends_at_its_limit() -> None:
    end = the_end(tracker(pod(0, state=RUNNING), pod(1, state=RUNNING)), 601)
    assert end.state == "TimedOut"
    assert "600 s" in end.reason
    assert "`timeout`" in end.advice


def test_the_operators_own_deadline_is_a_timeout_and_no_failure() -> None:
    message = "Job mine has failed because it was active longer than specified deadline"
    end = end_of(tracker(pod(0, state=RUNNING), of=job("Failed", message=message)), 1, DECLARED)
    assert end is not None
    assert end.state == "TimedOut"


def test_a_job_deleted_from_outside_ends_the_wait() -> None:
    tracked = tracker(pod(0, state=RUNNING))
    tracked.see_jobs([])
    assert_ends(tracked, 1, "Failed", "deleted")


def test_a_job_that_is_removed_once_it_has_succeeded_has_succeeded() -> None:
    """Its TTL or a user may remove it in the moment in which the operator completes it."""
    for last in (done(1), pod(1, state=RUNNING), pod(1, state=ended(143))):
        tracked = tracker(done(0), last, of=job("Succeeded", message="it is done"))
        tracked.see_jobs([])
        end = the_end(tracked, 1)
        assert (end.state, end.reason) == ("Succeeded", "it is done")


def test_a_job_that_is_removed_once_it_has_failed_names_its_cause() -> None:
    for condition, other in (("Failed", RUNNING), ("Succeeded", ended(0))):
        tracked = tracker(pod(0, state=other), pod(1, state=ended(3)), of=job(condition))
        tracked.see_jobs([])
        assert_ends(tracked, 1, "Failed", "rank 1 (mine-worker-0) exited with code 3")


def test_ranks_that_all_exited_with_0_succeeded_though_the_job_went_before_its_condition() -> None:
    """A job that its TTL or a user removes as it succeeds has succeeded."""
    tracked = tracker(done(0), done(1), of=job("Running"))
    tracked.see_jobs([])
    assert the_end(tracked, 1).state == "Succeeded"


def beside(document: dict[str, Any], state: dict[str, Any] = RUNNING) -> dict[str, Any]:
    """A pod with a container that a webhook has added."""
    proxy = {"name": "proxy", "image": "proxy:1", "state": state, "restartCount": 0}
    document["status"]["containerStatuses"].append(proxy)
    return document


def test_ranks_that_are_done_have_succeeded_though_another_container_of_their_pods_stays() -> None:
    """Kubernetes takes such a pod for running, so the operator waits for it."""
    pods = [beside(pod(rank, state=ended(0, summary(rank)))) for rank in (0, 1)]
    tracked = tracker(*pods, of=job("Running"))
    assert end_of(tracked, 100, DECLARED) is None
    assert end_of(tracked, 104, DECLARED) is None
    end = the_end(tracked, 105)
    assert (end.state, end.reason) == (
        "Succeeded",
        "every rank exited with 0; container proxy was still running in 2 pods and was stopped",
    )


def test_a_rank_that_failed_for_good_beside_another_container_has_failed() -> None:
    """Ranks that are done end the run though another container of their pods stays."""
    failed = beside(pod(1, state=ended(3), restart_policy="Never"))
    tracked = tracker(pod(0, state=RUNNING), failed, of=job("Running"))
    assert end_of(tracked, 100, DECLARED) is None
    end = the_end(tracked, 105)
    assert end.state == "Failed"
    assert end.reason.startswith("rank 1 (mine-worker-0) exited with code 3; container proxy")


@pytest.mark.parametrize(
    "last",
    [
        beside(pod(1, state=RUNNING)),
        beside(pod(1, state=ended(3))),
        beside(pod(1, state=ended(0)), ended(0)),
        pod(1, state=ended(0), phase="Succeeded"),
    ],
    ids=["runs", "may restart", "both ended", "succeeded"],
)
def test_a_container_beside_ends_no_run_that_goes_on(last: dict[str, Any]) -> None:
    first = pod(0, state=ended(0), phase="Succeeded")
    tracked = tracker(first, last, of=job("Running"))
    assert end_of(tracked, 100, DECLARED) is None
    assert end_of(tracked, 200, DECLARED) is None


def test_a_new_job_of_the_same_name_is_not_this_run() -> None:
    tracked = tracker()
    tracked.see_jobs([job("Succeeded", uid="another")])
    tracked.see_pods([pod(0, state=ended(0), owner="another")])
    assert the_end(tracked, 1).state == "Failed"
    assert tracked.replicas == {}


@pytest.mark.parametrize(
    ("document", "active"),
    [
        (pod(1, state=RUNNING), True),
        (pod(1, state=waiting("ContainerCreating"), phase="Pending"), True),
        (pod(1, state=ended(0)), False),
        (pod(1, state=ended(3)), True),
        (pod(1, state=ended(3), restart_policy="Never"), False),
        (pod(1, state=ended(3), phase="Failed"), False),
    ],
)
def test_a_pod_that_never_runs_again_is_left(document: dict[str, Any], active: bool) -> None:
    assert Replica(document, Topology(replicas=2)).active == active


@pytest.mark.parametrize(
    ("document", "stage"),
    [
        (pod(1, state=waiting("PodInitializing"), init=RUNNING), "waiting for rank 0"),
        (pod(1, state=waiting("ContainerCreating")), "starting"),
        (pod(1, state=RUNNING), "running"),
        (pod(1, state=waiting("CrashLoopBackOff"), restarts=1), "restarting"),
        (pod(1, state=ended(0)), "done"),
        (pod(1, state=ended(1)), "failed"),
    ],
)
def test_a_ranks_stage(document: dict[str, Any], stage: str) -> None:
    assert Replica(document, Topology(replicas=2)).stage == stage


def test_a_replica_that_is_made_again_late_has_started_before() -> None:
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=RUNNING))
    again = pod(1, state=waiting("ContainerCreating"), created="2026-01-01T00:05:00Z")
    tracked.see_pods([again])
    assert end_of(tracked, 61, DECLARED) is None


def test_of_several_processes_the_one_that_reported_is_named() -> None:
    told = {"rank": 3, "error": "ValueError", "traceback": "..."}
    submitted = job("Failed", processes=2)
    tracked = RunState(submitted)
    tracked.see_pods([pod(1, state=ended(1, told))])
    assert tracked.status == "4 ranks, 2 in each pod: 1 failed, 1 to be created"
    assert the_end(tracked, 10).reason == "rank 3 (mine-worker-0) exited with code 1: ValueError"


def elastic(*pods: dict[str, Any], conditions: tuple[str, ...] = ("Running",)) -> RunState:
    tracked = RunState(job(*conditions, workers=3, elastic=True, message="backoff limit"))
    tracked.see_pods(pods)
    return tracked


def worker(index: int, **shown: Any) -> dict[str, Any]:
    return pod(index, master=False, **shown)


def test_an_elastic_job_goes_on_when_a_replica_is_lost() -> None:
    lost = worker(0, state=RUNNING, last=ended(137), restarts=1)
    tracked = elastic(lost, worker(1, state=RUNNING), worker(2, state=RUNNING))
    assert [str(failure) for failure in tracked.failures] == [
        "rank 0 (mine-worker-0) exited with code 137 (SIGKILL)"
    ]
    assert end_of(tracked, 100, DECLARED) is None


def test_an_elastic_job_succeeds_once_all_its_ranks_have_ended() -> None:
    finished = [worker(1, state=ended(0)), worker(2, state=ended(0))]
    tracked = elastic(worker(0, state=RUNNING), *finished, conditions=("Succeeded",))
    assert end_of(tracked, 100, DECLARED) is None
    tracked.see_pods([worker(0, state=ended(137))])
    assert the_end(tracked, 101).state == "Succeeded"


def test_an_elastic_job_that_bears_no_more_losses_names_the_last() -> None:
    tracked = elastic(
        worker(0, state=ended(137, finished="2026-01-01T00:00:20Z")),
        worker(1, state=ended(1, finished="2026-01-01T00:00:50Z")),
        conditions=("Failed",),
    )
    assert the_end(tracked, 100).reason == "rank 1 (mine-worker-1) exited with code 1"


def test_a_crash_loop_does_not_end_a_job_that_has_made_a_step() -> None:
    looping = worker(1, state=waiting("CrashLoopBackOff"), last=ended(137), restarts=2)
    tracked = elastic(looping)
    tracked.progress.see(json.dumps({"event": "step", "step": 3}))
    assert end_of(tracked, 10, DECLARED) is None


UNSET = "ValueError: environment variable RANK expected, but not set"


def failing(*starts: tuple[int, str], minutes: int = 0, code: int = 1) -> RunState:
    """An elastic run of three workers, whose programs failed one after the other: index, error."""
    tracked = elastic(*(worker(index, state=RUNNING) for index in range(3)))
    for second, (index, error) in enumerate(starts):
        at = f"2026-01-01T00:{minutes:02}:{10 + second}Z"
        last = ended(code, f"Traceback …\n{error}\n", finished=at)
        tracked.see_pods([worker(index, state=RUNNING, last=last, restarts=second + 1)])
    return tracked


@pytest.mark.parametrize("indices", [(0, 0, 0), (0, 1, 0), (2, 1, 0, 2)])
def test_an_elastic_job_ends_after_equal_first_failures(indices: tuple[int, ...]) -> None:
    """After three at the earliest, whatever `maxRestarts` allows; numbers in it may vary."""
    starts = [(index, f"{UNSET}, port {index}") for index in indices]
    assert end_of(failing(*starts[:-1]), 100, DECLARED) is None
    end = the_end(failing(*starts), 100)
    assert end.state == "Failed"
    assert UNSET in end.reason
    assert f"{len(indices)} identical failures in a row" in end.reason


@pytest.mark.parametrize(
    ("tracked", "why"),
    [
        (failing((0, UNSET), (1, UNSET), (2, UNSET)), "no restart has failed yet"),
        (failing((0, UNSET), (0, "KeyError: 'x'"), (0, UNSET)), "another error is between them"),
        (failing(*[(0, UNSET)] * 3, minutes=5), "each ran for minutes, and may have made steps"),
        (failing(*[(0, "RuntimeError: Connection closed by peer")] * 3), "they lost a peer"),
        (failing(*[(0, "")] * 3, code=137), "they were killed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_elastic_job_survives_curable_failures(tracked: RunState, why: str) -> None:
    """An elastic job whose workers fail alike at each start ends before its restarts are spent."""
    assert end_of(tracked, 100, DECLARED) is None, why


def test_an_elastic_job_that_has_made_a_step_has_the_restarts_that_it_allows() -> None:
    tracked = failing(*[(0, UNSET)] * 4)
    tracked.progress.see(json.dumps({"event": "step", "step": 3}))
    assert end_of(tracked, 100, DECLARED) is None


def test_a_program_without_steps_may_use_all_its_restarts() -> None:
    tracked, patient = RunState(job("Running")), replace(DECLARED, backoff_limit=3)
    looping = pod(1, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=2)
    tracked.see_pods([pod(0, state=RUNNING), looping])
    assert end_of(tracked, 10, patient) is None
    used = pod(1, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=3)
    tracked.see_pods([pod(0, state=RUNNING), used])
    assert the_end(tracked, 10, patient).state == "Failed"


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
    ("log", "said"),
    [
        ("Traceback …\n[rank1]: ValueError: label 7\n", ": ValueError: label 7"),
        ("Traceback …\ntorch.OutOfMemoryError: x\n\n", ": torch.OutOfMemoryError: x"),
        ("Traceback …\nKeyboardInterrupt\n", ": KeyboardInterrupt"),
        ("an Error: this is no exception\n", ""),
        (f"{_TRACE}ValueError: label 7\nof shard 3\n\n", ": ValueError: label 7, train.py:40"),
        (f"{_THREADS}{_TRACE}ValueError: label 7\n", ": ValueError: label 7, train.py:40"),
        (f"{_TRACE}ValueError: label 7\n{_THREADS}", ": ValueError: label 7, train.py:40"),
        (f"{_TRACE}ValueError: label 7\n{_LEAKED}", ": ValueError: label 7, train.py:40"),
        (_THREADS, ""),
        (_GROUP, ": ExceptionGroup: training (1 sub-exception), train.py:2"),
        ("ValueError: long ago\n" + "a line\n" * 10, ""),
    ],
)
def test_the_exception_that_ended_a_program_is_named(log: str, said: str) -> None:
    failed = tracker(pod(1, state=ended(1, log)))
    assert str(failed.cause) == f"rank 1 (mine-worker-0) exited with code 1{said}"
    assert str(tracker(pod(1, state=ended(7, log))).cause).endswith("exited with code 7")


GONE = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 8000ms for recv"


def test_who_its_peers_waited_for_in_vain_is_named() -> None:
    tracked = tracker(pod(0, state=ended(1, GONE)), pod(1, state=RUNNING), of=job("Failed"))
    end = the_end(tracked, 10)
    assert end.reason == (
        "rank 1 (mine-worker-0) did not respond to its peers: "
        f"rank 0 (mine-master-0) exited with code 1: {GONE}"
    )
    assert is_stuck(tracked, end)
    assert [each.number for each in tracked.hanging] == [1]


def test_where_several_went_on_none_is_accused() -> None:
    tracked = RunState(job("Failed", workers=2))
    tracked.see_pods([pod(0, state=ended(1, GONE)), *(pod(n, state=RUNNING) for n in (1, 2))])
    assert the_end(tracked, 10).reason == f"rank 0 (mine-master-0) exited with code 1: {GONE}"
    assert [each.number for each in tracked.hanging] == [1, 2]


def test_those_that_failed_after_the_cause_are_counted_by_replica() -> None:
    tracked = tracker(
        pod(0, state=ended(1, GONE), last=ended(1, "", finished="2026-01-01T00:00:07Z")),
        pod(1, state=ended(9, finished="2026-01-01T00:00:59Z")),
    )
    assert tracked.followers == 1


def test_an_early_end_of_rank_0_is_reported_with_the_ranks_it_ended() -> None:
    first = pod(0, state=ended(0, finished="2026-01-01T00:00:50Z"))
    end = end_of(tracker(first, pod(1, state=ended(1, GONE)), of=job("Succeeded")), 10, DECLARED)
    assert end is not None
    assert end.reason == (
        "rank 0 (mine-master-0) exited with code 0 before the other ranks were done, which made "
        "1 replica fail"
    )


AT = "2026-01-01T00:{minute:02}:00Z"


def suspended(*, resumed_at: int | None = None) -> dict[str, Any]:
    """The job as the operator shows it, created at minute 0: suspended, or resumed at a minute."""
    shown = job("Created")
    shown["spec"]["runPolicy"] = {"suspend": resumed_at is None}
    at = AT.format(minute=5 if resumed_at is None else resumed_at)
    status = "True" if resumed_at is None else "False"
    condition = {"type": "Suspended", "status": status, "lastTransitionTime": at}
    shown["status"]["conditions"].append(condition)
    return shown


def stopped(rank: int) -> dict[str, Any]:
    """A pod that the operator deleted, whose program obeyed SIGTERM."""
    found = pod(rank, state=ended(143))
    found["metadata"]["deletionTimestamp"] = AT.format(minute=5)
    return found


def test_a_run_that_is_suspended_goes_on_with_new_pods_and_its_pause_does_not_count() -> None:
    """The pause is of minutes 5 to 30, `timeout` is 10 minutes, `startTimeout` one."""
    tracked = tracker(pod(0, state=RUNNING), pod(1, state=RUNNING), of=job("Created", "Running"))
    assert end_of(tracked, 299, DECLARED) is None
    tracked.see_jobs([suspended()])
    assert tracked.status == "2 ranks: suspended, until its `runPolicy.suspend` is unset"
    tracked.see_pods([stopped(0), stopped(1)])
    assert end_of(tracked, 1799, DECLARED) is None
    tracked.see_jobs([suspended(resumed_at=30)])
    tracked.see_pods([stopped(0), stopped(1)])
    assert (tracked.failures, tracked.cured_by_a_retry) == ([], None)
    assert tracked.status == "submitted; 2 pods to be created"
    assert end_of(tracked, 1859, DECLARED) is None
    assert "not all ranks started within 60 s" in str(end_of(tracked, 1861, DECLARED))
    new = [pod(rank, state=RUNNING, created=AT.format(minute=30)) for rank in (0, 1)]
    tracked.see_pods(new)
    assert tracked.status == "2 ranks: 2 running"
    assert end_of(tracked, 2399, DECLARED) is None
    assert the_end(tracked, 2401).state == "TimedOut"


def test_pods_that_ended_before_the_suspension_was_seen_are_no_failure_either() -> None:
    """They are watched apart from the job."""
    tracked = tracker(stopped(0), stopped(1), of=job("Created", "Running"))
    assert tracked.failures
    tracked.see_jobs([suspended()])
    tracked.see_jobs([suspended(resumed_at=6)])
    tracked.see_pods([stopped(0), stopped(1)])
    assert tracked.failures == []
    assert tracked.replicas == {}


def test_a_failure_after_a_resumption_ends_the_run_as_any_other() -> None:
    tracked = tracker(of=suspended(resumed_at=30))
    tracked.see_pods([pod(1, state=ended(3), created=AT.format(minute=31))])
    assert str(tracked.cause) == "rank 1 (mine-worker-0) exited with code 3"


def test_a_run_that_is_adopted_while_suspended_is_not_overdue() -> None:
    tracked = RunState(suspended())
    tracked.see_pods([stopped(0)])
    assert end_of(tracked, 9000, DECLARED) is None


def test_a_job_that_has_ended_or_is_removed_is_not_suspended() -> None:
    shown = suspended()
    shown["status"]["conditions"].append({"type": "Succeeded", "status": "True"})
    tracked = tracker(done(0), done(1), of=job("Running"))
    tracked.see_jobs([shown])
    assert the_end(tracked, 10).state == "Succeeded"
    tracked = tracker(of=suspended())
    tracked.see_jobs([])
    assert "deleted" in the_end(tracked, 10).reason


STALLING = declared(stall=60, start_timeout=60)
_STEP = '{"event": "step", "rank": 0}'


def prints(run: RunState, rank: int, second: int, *texts: str) -> None:
    stamp = f"2026-01-01T00:00:{second:02}.000000000Z"
    run.see_sign((rank, [Line(stamp, text) for text in texts]))


def two_ranks(**states: dict[str, Any]) -> RunState:
    pods = [pod(rank, state=states.get(f"rank_{rank}", RUNNING)) for rank in (0, 1)]
    return tracker(*pods, of=job("Running"))


def stalls_after(run: RunState, *at: float) -> list[str | None]:
    ends = [end_of(run, each, STALLING) for each in at]
    return [None if each is None else each.reason for each in ends]


def test_a_run_of_which_no_rank_prints_anything_stands_still() -> None:
    run = two_ranks()
    assert stalls_after(run, 1, 50) == [None, None]
    prints(run, 0, 50, "epoch 1")
    assert stalls_after(run, 51, 110) == [None, None]
    (reason,) = stalls_after(run, 112)
    assert reason == "every rank stalled: nothing was printed for 60 s"
    assert end_of(run, 112, STALLING) is not None
    assert is_stuck(run, End("TimedOut", reason))
    assert run.stalled == []
    quiet = two_ranks()
    assert stalls_after(quiet, 1) == [None]
    prints(quiet, 0, 1, _STEP, _STEP)
    assert stalls_after(quiet, 2, 62) == [None, reason], "rank 1 may as well be the one"


def test_programs_that_import_their_packages_have_the_time_of_a_start() -> None:
    run, loading = two_ranks(), replace(STALLING, start_timeout=300)
    assert [end_of(run, each, loading) for each in (1, 62, 299)] == [None] * 3
    prints(run, 0, 0, "epoch 1")
    assert end_of(run, 301, loading) is None
    assert end_of(run, 362, loading) is not None
    assert end_of(two_ranks(), 1, loading) is None


def test_a_rank_that_prints_nothing_while_others_do_may_be_at_work() -> None:
    run = two_ranks()
    for second in (1, 40, 80, 120):
        prints(run, 0, second % 60, _STEP)
        assert stalls_after(run, second) == [None]


def test_a_rank_that_reported_steps_and_stopped_is_named_though_others_print() -> None:
    run = two_ranks()
    prints(run, 1, 1, _STEP, _STEP)
    for second in (2, 30, 59):
        prints(run, 0, second, "waiting for a peer")
        assert stalls_after(run, second) == [None]
    prints(run, 0, 59, "waiting for a peer")
    assert stalls_after(run, 63) == ["rank 1 (mine-worker-0) stalled: nothing was printed for 60 s"]
    end = end_of(run, 0, STALLING)  # as a wait looks once more
    assert end is None
    assert [each.number for each in run.stalled or ()] == [1]
    assert [each.number for each in run.hanging] == [1, 0]


@pytest.mark.parametrize(("last", "first"), [(10, [1]), (30, [])])
def test_of_silent_ranks_one_is_first_by_over_a_second(last: int, first: list[int]) -> None:
    run = two_ranks()
    assert stalls_after(run, 1) == [None]
    prints(run, 0, 30, _STEP, _STEP)
    prints(run, 1, last, _STEP, _STEP)
    assert stalls_after(run, 31, 90) == [None, None]
    assert stalls_after(run, 92) != [None]
    assert [each.number for each in run.stalled or ()] == first


def test_a_rank_that_falls_silent_a_moment_later_is_waited_for() -> None:
    """They may all wait for one, which printed its last line just before or after them."""
    run = two_ranks()
    assert stalls_after(run, 1) == [None]
    prints(run, 0, 10, _STEP, _STEP)
    assert stalls_after(run, 10) == [None]
    prints(run, 1, 10, _STEP, _STEP)
    assert stalls_after(run, 10.5, 70, 70.2) == [None, None, None]
    (reason,) = stalls_after(run, 70.5)
    assert reason == "every rank stalled: nothing was printed for 60 s"


def test_a_rank_with_a_debugger_stands_still_as_long_as_it_likes() -> None:
    run, debugged = two_ranks(), replace(STALLING, debug=1, timeout=600)
    assert [end_of(run, each, debugged) for each in (1, 70, 599)] == [None] * 3
    assert the_end(run, 601, debugged).state == "TimedOut"
    alone = tracker(done(0), pod(1, state=RUNNING), of=job("Succeeded"))
    assert [end_of(alone, each, debugged) for each in (1, 70, 599)] == [None] * 3


_EXIT = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:20Z"}


def holding(*pods: dict[str, Any], of: dict[str, Any] | None = None, **ended: Any) -> RunState:
    """Return a run whose rank 1 is held, by what its launcher reports."""
    of = job("Running") if of is None else of
    of["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = {"env": ["SLIPWAY_HOLD"]}
    run = tracker(*(pods or [pod(rank, state=RUNNING) for rank in (0, 1)]), of=of)
    run.job = of
    message = json.dumps({"rank": 1, "error": "ValueError: bad", "at": "train.py:4"})
    told = {"terminated": {**_EXIT, "message": message, **ended}, "until": "12:00:00 UTC"}
    run.see_held((1, f"10%|# {json.dumps({'event': 'held', 'rank': 1, **told})}"))
    return run


def test_a_rank_that_is_held_has_failed_as_if_its_container_had_ended() -> None:
    run = holding()
    end = the_end(run, 20)
    real = tracker(
        pod(0, state=RUNNING), pod(1, state=ended(3, run.failures[0].exit.message)),
        of=job("Failed"),
    )  # fmt: skip
    assert end == end_of(real, 20, DECLARED)
    assert "ValueError: bad, train.py:4" in end.reason
    assert run.held == {1: "`make shell JOB=mine RANK=1` until 12:00:00 UTC"}
    assert run.cause is not None
    assert (run.cause.rank, run.cause.exit.code) == (1, 3)
    run.see_pods([pod(1, state=ended(3, container="containerd://1-0"))])
    assert len(run.failures) == 1, "its container's end is no other failure"


def test_a_rank_that_is_held_explains_those_that_lost_it_before() -> None:
    peers = ended(1, {"rank": 0, "error": "reset", "from": "peer"}, finished="2026-01-01T00:00:19Z")
    pods = pod(0, state=peers), pod(1, state=RUNNING)
    lost = tracker(*pods, of=job("Failed"))
    assert lost.cause_may_be_to_come
    run = holding(*pods, of=job("Failed"))
    assert not run.cause_may_be_to_come
    end = the_end(run, 20)
    assert end.reason == "rank 1 (mine-worker-0) exited with code 3: ValueError: bad, train.py:4"


def test_a_rank_that_is_held_after_rank_0_succeeded_has_failed_at_once() -> None:
    run = holding(done(0), pod(1, state=RUNNING), of=job("Succeeded"))
    assert the_end(run, 20).reason.endswith("bad, train.py:4, although rank 0 succeeded")


def test_lines_like_a_launchers_of_other_programs_mean_nothing() -> None:
    assert not holding(exitCode="3").held
    assert not holding(pod(0, state=RUNNING), pod(1, state=waiting("ContainerCreating"))).held
    assert not holding(pod(0, state=RUNNING)).held
    plain = two_ranks()
    plain.see_held((1, json.dumps({"event": "held", "terminated": {**_EXIT, "message": ""}})))
    assert (plain.held, plain.failures) == ({}, [])


def test_neither_a_start_nor_a_rank_that_has_ended_is_a_stall() -> None:
    starting = two_ranks(rank_1=waiting("ContainerCreating"))
    assert stalls_after(starting, 1, 59) == [None, None]
    ending = two_ranks(rank_1=ended(0))
    prints(ending, 1, 1, _STEP, _STEP)
    for second in (2, 30, 59):
        prints(ending, 0, second, _STEP)
        assert stalls_after(ending, second, second + 40) == [None, None]
    assert end_of(two_ranks(), 1000, declared(timeout=3600)) is None, "off unless set"
