"""Which of several failures mattered, and which the cluster itself brought about."""

from typing import Any

import pytest

from jobs.model.pytorchjob import Topology
from jobs.observe import failures
from jobs.observe.failures import Disruption, Failure, Origin, disruption, lost_node
from jobs.observe.replica import Replica, containers, starts_in
from jobs.observe.run_state import RunState
from tests.unit.jobs_objects import JOB_UID, RUNNING, ended, job, pod

RESET = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]"
LATER = "2026-01-01T00:01:01Z"


def failure(rank: int, code: int = 1, message: object = "", **told: Any) -> Failure:
    replica = Replica(pod(rank, state=ended(code, message, **told)), Topology(replicas=4))
    return Failure(replica, replica.exits[-1])


def test_who_lost_its_peer_followed_the_one_that_did_not() -> None:
    first = failure(1, 3, "about to fail", finished=LATER)
    assert failures.first([failure(0, message=RESET), first]) is first


@pytest.mark.parametrize(
    "message",
    [
        RESET,
        {"error": "DistBackendError: NCCL error: ncclRemoteError: remote process exited"},
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation",
        "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. 1/2",
    ],
)
def test_what_torch_says_when_a_peer_has_gone_is_known(message: object) -> None:
    assert failure(0, message=message).origin is Origin.PEER


_FRAME = 'Traceback (most recent call last):\n  File "{}", line 7, in connect\n'
_THREADS = f"Exception in thread Thread-1:\n{_FRAME.format('/usr/lib/python3.13/ssl.py')}"
_REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused\n"
_TORCHS = _FRAME.format("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py")


@pytest.mark.parametrize(
    ("message", "origin"),
    [
        ({"error": "RuntimeError: the tracker: connection refused", "from": "program"}, Origin.OWN),
        ({"error": "RuntimeError: in words nobody knows", "from": "peer"}, Origin.PEER),
        (_FRAME.format("/usr/lib/python3.13/socket.py") + _REFUSED, Origin.OWN),
        (_FRAME.format("/opt/script/train.py") + _REFUSED, Origin.OWN),
        ({"error": _REFUSED, "traceback": _FRAME.format("/opt/x.py") + _REFUSED}, Origin.OWN),
        (f"{_THREADS}{_REFUSED}{_FRAME.format('/opt/x.py')}ValueError: label 11\n", Origin.OWN),
        (f"{_THREADS}{_REFUSED}", Origin.OWN),
        (f"{_TORCHS}{RESET}\n", Origin.PEER),
        (f"{_TORCHS}torch.distributed.DistBackendError: NCCL\nncclRemoteError: it\n", Origin.PEER),
        ({"error": "the program was terminated by SIGABRT", "traceback": f"terminate: {RESET}"},
         Origin.PEER),
    ],
)  # fmt: skip
def test_where_an_error_rose_says_if_it_is_a_peers(message: object, origin: Origin) -> None:
    """An error of a tracker or a database is no peer's, whatever its words."""
    assert failure(0, message=message).origin is origin


def test_of_a_rank_whose_tracker_refuses_a_connection_and_its_victim_the_first_is_named() -> None:
    own = {"error": _REFUSED, "at": "train.py:12", "from": "program"}
    cause = failure(1, message=own, finished=LATER)
    assert failures.first([failure(0, message={"error": RESET, "from": "peer"}), cause]) is cause


def test_a_failure_long_before_another_is_not_its_cause() -> None:
    """The program was started again, and then failed by itself."""
    early = failure(0, message=RESET, finished="2026-01-01T00:00:10Z")
    late = failure(1, 3)
    assert failures.first([early, late]) is late


def test_a_peer_that_notices_late_is_traced_back_to_what_failed_while_it_ran() -> None:
    cause = failure(1, 9, finished="2026-01-01T00:00:20Z")
    assert failures.first([cause, failure(0, message=RESET)]) is cause


def test_a_restart_that_found_the_old_world_is_traced_back_through_it() -> None:
    cause = failure(1, 9, finished="2026-01-01T00:00:20Z")
    old = failure(0, message=RESET, finished="2026-01-01T00:00:40Z")
    started = "2026-01-01T00:00:21Z"
    again = failure(1, message=RESET, started=started, finished="2026-01-01T00:00:52Z")
    assert failures.first([cause, old, again]) is cause


def test_a_rank_that_obeyed_sigterm_followed_unless_it_explains_the_others() -> None:
    stopped, cause = failure(0, 143), failure(1, 3, finished=LATER)
    assert failures.first([stopped, cause]) is cause
    assert failures.first([failure(2, message=RESET), stopped]) is stopped


def test_a_pod_that_was_killed_after_its_deletion_followed() -> None:
    killed = failure(0, 137)
    killed.replica.pod["metadata"].update(
        deletionTimestamp="2026-01-01T00:00:59Z", deletionGracePeriodSeconds=30
    )
    cause = failure(1, 3, finished="2026-01-01T00:00:55Z")
    assert failures.first([killed, cause]) is cause


def test_a_rank_that_ended_well_too_early_is_the_cause_of_its_peers_failures() -> None:
    early = failure(1, 0, finished="2026-01-01T00:00:50Z")
    assert failures.first([failure(0, message=RESET)], [early]) is early
    assert str(early).endswith("exited with code 0 before the other ranks were done")
    own = failure(0, 3)
    assert failures.first([own], [early]) is own


def condition(reason: str, at: str = "2026-01-01T00:00:50Z") -> dict[str, Any]:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "told by the cluster",
        "lastTransitionTime": at,
    }


def disrupted(rank: int, reason: str = "PreemptionByScheduler", **told: Any) -> dict[str, Any]:
    return pod(rank, conditions=[condition(reason)], **told)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PreemptionByScheduler", "higher priority"),
        ("EvictionByEvictionAPI", "evicted"),
        ("DeletionByTaintManager", "node"),
        ("SomethingNew", "was disrupted"),
    ],
)
def test_a_disruption_is_explained_by_its_reason(reason: str, words: str) -> None:
    found = disruption(disrupted(1, reason))
    assert found is not None
    assert words in found.text
    assert f"{reason}: told by the cluster" in found.text
    assert disruption(pod(1, state=RUNNING)) is None


def tracked(*pods: dict[str, Any]) -> RunState:
    tracker = RunState(job("Running"))
    for each in pods:
        tracker.see_pods([each])
    return tracker


def test_a_failure_that_follows_a_preemption_may_be_cured_by_a_retry() -> None:
    late = "2026-01-01T00:09:00Z"
    tracker = tracked(disrupted(1, state=RUNNING), pod(0, state=ended(1, RESET, finished=late)))
    assert "mine-worker-0 was preempted" in str(tracker.cured_by_a_retry)


def test_a_program_that_fails_by_itself_long_after_is_not_cured_by_a_retry() -> None:
    late = "2026-01-01T00:09:00Z"
    tracker = tracked(disrupted(1, state=RUNNING), pod(0, state=ended(3, finished=late)))
    assert tracker.cured_by_a_retry is None


def test_running_out_of_memory_is_not_cured_by_a_retry() -> None:
    tracker = tracked(disrupted(1, state=ended(137, reason="OOMKilled")))
    assert tracker.cured_by_a_retry is None


def test_pods_that_are_cleared_up_after_a_failure_are_no_disruption() -> None:
    cleared = pod(0, state=RUNNING)
    cleared["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:30Z"
    tracker = tracked(pod(0, state=RUNNING), pod(1, state=ended(3)), cleared)
    assert tracker.cured_by_a_retry is None


def test_a_pod_deleted_while_running_can_be_retried() -> None:
    deleted = pod(1, state=RUNNING)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:30Z"
    assert "was deleted while its program was running" in str(tracked(deleted).cured_by_a_retry)


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


@pytest.mark.parametrize("nodes", [[], [node("node", "Unknown")], [node("another")]])
def test_a_node_that_is_gone_or_silent_explains_a_failure(nodes: list[dict[str, Any]]) -> None:
    found = lost_node([pod(0, state=RUNNING)], nodes)
    assert isinstance(found, Disruption)
    assert "mine-master-0" in found.text
    assert lost_node([pod(0, state=RUNNING)], [node("node")]) is None


def evicted(rank: int, message: str, **fields: Any) -> dict[str, Any]:
    found = pod(rank, phase="Failed", **fields)
    found["status"] |= {"reason": "Evicted", "message": message}
    return found


def test_an_eviction_by_the_node_is_reported_with_its_message() -> None:
    full = "Pod ephemeral local storage usage exceeds the total limit of containers 100Mi. "
    replica = Replica(evicted(1, full, state=ended(143)), Topology(replicas=2))
    found = Failure(replica, replica.exits[-1])
    assert found.origin is Origin.OWN
    assert str(found) == f"rank 1 (mine-worker-0) was evicted by its node: {full.strip(' .')}"


def test_who_obeys_a_signal_to_end_did_not_miss_a_peer_that_ended_well() -> None:
    obeyed = failure(1, 143)
    assert failures.first([obeyed], [failure(0, 0)]) is obeyed


@pytest.mark.parametrize("finished", ["2026-01-01T00:00:20Z", None])
def test_what_a_peer_outlived_is_the_cause(finished: str | None) -> None:
    """Rank 0 sleeps on in the old world, where the new rank 1 finds no peer."""
    sleeping = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:20Z"}
    first = evicted(1, "full", state=ended(137), conditions=[unready])
    terminated = first["status"]["containerStatuses"][0]["state"]["terminated"]
    terminated["finishedAt"] = finished
    again = pod(
        1,
        state=ended(1, RESET, started="2026-01-01T00:00:30Z", finished=LATER),
        created="2026-01-01T00:00:25Z",
    )
    again["status"]["containerStatuses"][0]["containerID"] = "containerd://another"
    tracker = RunState(job())
    for seen in ([pod(0, state=sleeping), first], [again]):
        tracker.see_pods(seen)
    assert "was evicted by its node: full" in str(tracker.cause)
    assert tracker.silent == []
    tracker.see_pods([pod(0, state={"running": {"startedAt": "2026-01-01T00:00:40Z"}})])
    assert "exited with code 1" in str(tracker.cause)


ODD = ["zz", "", "-1", "1.5", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 5000]


@pytest.mark.parametrize("index", ODD, ids=lambda index: ascii(index)[:8])
@pytest.mark.parametrize("owner", [JOB_UID, "another"])
def test_a_pod_without_a_replicas_index_is_passed_over(index: str, owner: str) -> None:
    """Anybody who may make pods in the namespace may give theirs the labels of a run's."""
    odd = pod(1, state=ended(1), owner=owner)
    odd["metadata"]["labels"]["training.kubeflow.org/replica-index"] = index
    tracker = tracked(odd, pod(0, state=RUNNING))
    assert list(tracker.replicas) == [0]
    assert tracker.failures == []
    assert containers([odd], tracker.topology, None) == []
    assert starts_in(odd) == []
