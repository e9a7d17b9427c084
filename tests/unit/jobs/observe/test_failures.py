"""Which of several failures mattered, in any order, and which the cluster itself brought about."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.api.lines import Line
from jobs.model.pytorchjob import Topology
from jobs.observe import failures
from jobs.observe.failures import Failure, Origin
from jobs.observe.replica import Replica, containers, starts_in
from tests.unit.jobs_objects import RUNNING, clock, ended, job, pod, runs, seen
from tests.unit.not_none import not_none

RESET = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]"
LATER = clock(1, 1)


def failure(
    rank: int, code: int = 1, message: object = "", deleted: object = None, **told: Any
) -> Failure:
    """The exit of a pod, or of one that was given 30 s to end when it was deleted."""
    shown = pod(rank, state=ended(code, message, **told))
    if deleted is not None:
        shown["metadata"] |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    replica = Replica(shown, Topology(replicas=4))
    return Failure(replica, replica.exits[-1])


_FRAME = 'Traceback (most recent call last):\n  File "{}", line 7, in connect\n'
_THREADS = f"Exception in thread Thread-1:\n{_FRAME.format('/usr/lib/python3.13/ssl.py')}"
_REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused\n"
_TORCHS = _FRAME.format("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py")


@pytest.mark.parametrize(
    ("message", "origin"),
    [
        # What torch says when a peer has gone.
        (RESET, Origin.PEER),
        ({"error": "DistBackendError: NCCL error: ncclRemoteError: remote"}, Origin.PEER),
        ("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", Origin.PEER),
        ("unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation", Origin.PEER),
        ("DistStoreError: Timed out after 31 seconds waiting for clients. 1/2", Origin.PEER),
        # An error of a tracker or a database is no peer's, whatever its words.
        ({"error": "RuntimeError: the tracker: connection refused", "from": "program"}, Origin.OWN),
        ({"error": "RuntimeError: in words nobody knows", "from": "peer"}, Origin.PEER),
        (_FRAME.format("/opt/script/train.py") + _REFUSED, Origin.OWN),
        (f"{_THREADS}{_REFUSED}{_FRAME.format('/opt/x.py')}ValueError: label 11\n", Origin.OWN),
        (f"{_THREADS}{_REFUSED}", Origin.OWN),
        (f"{_TORCHS}{RESET}\n", Origin.PEER),
        # The kubelet keeps only the end of a long traceback.
        (_FRAME.format("/lib/urllib3/util.py").split("\n", 1)[1] + _REFUSED, Origin.OWN),
        (_TORCHS.split("\n", 1)[1] + RESET, Origin.PEER),
        (f"{_TORCHS}torch.distributed.DistBackendError: NCCL\nncclRemoteError: it\n", Origin.PEER),
        ({"error": "terminated by SIGABRT", "traceback": f"terminate: {RESET}"}, Origin.PEER),
    ],
)
def test_where_an_error_rose_says_if_it_is_a_peers(message: object, origin: Origin) -> None:
    assert failure(0, message=message).origin is origin


_TRACKER = {"error": _REFUSED, "at": "train.py:12", "from": "program"}


@pytest.mark.parametrize(
    ("found", "first"),
    [
        ([failure(0, 1, {"error": RESET, "from": "peer"}), failure(1, 1, _TRACKER)], 1),
        (
            [
                failure(1, 9, finished=clock(20)),
                failure(0, 1, RESET, finished=clock(40)),
                failure(1, 1, RESET, started=clock(21), finished=clock(52)),
            ],
            0,
        ),
        ([failure(0, 143), failure(1, 3, finished=LATER)], 1),
        ([failure(2, 1, RESET), failure(0, 143)], 1),
        ([failure(0, 137, deleted=clock(59)), failure(1, 3, finished=clock(55))], 1),
    ],
    ids=[
        *("a tracker refuses", "a restart found the old world"),
        *("who obeys SIGTERM follows", "unless it explains", "who is killed after it follows"),
    ],
)
def test_the_first_failure_is_the_cause_of_the_others(found: list[Failure], first: int) -> None:
    assert failures.first(found) is found[first]


def test_a_rank_that_ended_well_too_early_is_the_cause_of_its_peers_failures() -> None:
    early = failure(1, 0, finished=clock(50))
    assert failures.first([failure(0, message=RESET)], [early]) is early
    assert str(early).endswith("exited with code 0 before the other ranks were done")
    own, obeyed = failure(0, 3), failure(1, 143)
    assert failures.first([own], [early]) is own
    assert failures.first([obeyed], [failure(0, 0)]) is obeyed, "it did not miss a peer"


def disrupted(
    rank: int, reason: str = "PreemptionByScheduler", at: str = clock(50), **told: Any
) -> dict[str, Any]:
    shown = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at}
    return pod(rank, conditions=[{**shown, "reason": reason, "message": "it"}], **told)


def deleted(rank: int) -> dict[str, Any]:
    found = runs(rank)
    found["metadata"]["deletionTimestamp"] = clock(30, 1)
    return found


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        (
            [disrupted(1, state=RUNNING), pod(0, state=ended(1, RESET, finished=clock(0, 9)))],
            "mine-worker-0 was preempted by a pod with a higher priority (Preemption",
        ),
        ([disrupted(1, "New")], "mine-worker-0 was disrupted (New: it)"),
        ([deleted(1)], "was deleted while its program was running"),
        # A program that fails by itself long after.
        ([disrupted(1, state=RUNNING), pod(0, state=ended(3, finished=clock(0, 9)))], "None"),
        ([disrupted(1, state=ended(137, reason="OOMKilled"))], "None"),
        # A spot node of a rank whose peer was the first to be seen failing.
        ([pod(0, state=ended(1, RESET)), disrupted(1, state=RUNNING)], "was preempted"),
        # A pod whose program had failed before.
        ([runs(0), pod(1, state=ended(3)), disrupted(1, state=ended(3))], "None"),
        # A pod that is cleared up after a failure.
        ([runs(0), pod(1, state=ended(3)), deleted(0)], "None"),
    ],
)
def test_a_retry_may_cure_a_failure_that_follows_a_disruption(pods: Any, why: str) -> None:
    found = seen("Running", *pods)
    assert why in str(found.cured_by_a_retry)
    found.see_jobs([])
    assert found.cured_by_a_retry is None, "whoever deletes the job deletes its pods"


def test_a_disruption_that_a_run_got_over_explains_no_later_end_and_the_next_one_does() -> None:
    begun, again = disrupted(1, state=RUNNING), {"created": clock(0, 1)}
    silent = seen("Running", runs(0), begun, runs(1, **again))
    assert silent.cured_by_a_retry is None
    silent.see_jobs([job("Failed")])
    silent.see_pods([pod(0, state=ended(1, RESET, finished=clock(30, 1)))])
    assert "was preempted" in str(silent.cured_by_a_retry), "the new pod came too late"
    run = seen("Running", runs(0), begun)
    run.see_sign((0, [Line("2026-01-01T00:00:49.000000000Z", '{"event": "step"}')]))
    run.see_pods([runs(1, **again)])
    assert "was preempted" in str(run.cured_by_a_retry), "no rank has trained since"
    run.see_sign((0, [Line("2026-01-01T00:09:00.000000000Z", '{"event": "step"}')]))
    assert run.cured_by_a_retry is None
    run.see_pods([disrupted(1, at=clock(0, 9), state=RUNNING, **again)])
    assert "was preempted" in str(run.cured_by_a_retry)
    stalls = seen("Running", runs(0), runs(1))
    stalls.stalled = [stalls.replicas[1]]
    stalls.forget_stillness()
    stalls.see_pods([deleted(1)])
    assert stalls.cured_by_a_retry is None, "Slipway itself deleted it"


@pytest.mark.parametrize("finished", [clock(20), None])
def test_what_a_peer_outlived_is_the_cause(finished: str | None) -> None:
    """Rank 0 sleeps on in the old world, where the new rank 1 finds no peer."""
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": clock(20)}
    exit_ = ended(137)
    exit_["terminated"]["finishedAt"] = finished
    first = pod(1, state=exit_, phase="Failed", conditions=[unready])
    first["status"] |= {"reason": "Evicted", "message": "full"}
    found = ended(1, RESET, started=clock(30), finished=LATER)
    again = pod(1, state=found, created=clock(25))
    tracker = seen("Running", runs(0), first, again)
    assert "was evicted by its node: full" in str(tracker.cause)
    assert tracker.silent == []
    tracker.see_pods([pod(0, state={"running": {"startedAt": clock(40)}})])
    assert "exited with code 1" in str(tracker.cause)


@pytest.mark.parametrize("index", ["zz", "", "-1", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 5000])
def test_a_pod_without_a_replicas_index_is_passed_over(index: str) -> None:
    """Anybody who may make pods in the namespace may give theirs the labels of a run's."""
    odd = pod(1, state=ended(1))
    odd["metadata"]["labels"]["training.kubeflow.org/replica-index"] = index
    tracker = seen("Running", odd, runs(0))
    assert list(tracker.replicas) == [0]
    assert tracker.failures == []
    assert containers([odd], tracker.topology, None) == []
    assert starts_in(odd) == []


CAUSES = (ended(9), ended(1, "ValueError: of its own"), ended(137, reason="OOMKilled"), ended(139))
Story = tuple[list[dict[str, Any]], int, tuple[int, int]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """One rank fails, its peers notice up to a minute later, all start again; a few times.

    Returns what the API server shows in one order, the world size, and the last rank and code.
    """
    world, begun = draw(st.integers(2, 4)), datetime(2026, 1, 1, tzinfo=UTC)
    rank = draw(st.integers(0, world - 1))
    starts = [begun] * world
    lasts: list[dict[str, Any] | None] = [None] * world
    shown: list[list[dict[str, Any]]] = [[] for _ in range(world)]
    code = 0
    for restarts in range(draw(st.integers(1, 3))):
        failed = max(starts) + timedelta(seconds=draw(st.integers(1, 300)))
        for number in range(world):
            late = 0 if number == rank else draw(st.integers(0, 60))
            exit_ = draw(st.sampled_from(CAUSES)) if number == rank else ended(1, RESET)
            end = failed + timedelta(seconds=late)
            terminated = exit_["terminated"] | {
                "startedAt": starts[number].isoformat(),
                "finishedAt": end.isoformat(),
                "containerID": f"containerd://{number}-{restarts}",
            }
            code = terminated["exitCode"] if number == rank else code
            was, now = lasts[number], {"terminated": terminated}
            shown[number] += [
                pod(number, state={"running": {}}, last=was, restarts=restarts),
                pod(number, state=now, last=was, restarts=restarts),
                pod(number, state={"running": {}}, last=now, restarts=restarts + 1),
            ]
            lasts[number] = now
            starts[number] = end + timedelta(seconds=draw(st.integers(0, 2)))
    order = draw(st.permutations([number for number in range(world) for _ in shown[number]]))
    return [shown[number].pop(0) for number in order], world, (rank, code)


@given(stories())
@settings(max_examples=300, deadline=None)
def test_the_rank_that_failed_first_is_named_in_every_order(story: Story) -> None:
    shown, world, expected = story
    cause = not_none(seen(job("Running", workers=world - 1), *shown).cause)
    assert (cause.rank, cause.exit.code) == expected
