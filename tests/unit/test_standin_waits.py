"""When the stand-in calls an object ready, failing or failed."""

import threading
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest

from core.context import Context
from scripts.offline.kubernetes_standin.awaiting import basics, pods, wait, workloads
from scripts.offline.kubernetes_standin.awaiting.custom import wait_for
from scripts.offline.kubernetes_standin.awaiting.looks import look_for
from scripts.offline.kubernetes_standin.awaiting.verdict import READY, Verdict
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.unserved import Unserved


class _Cluster:
    """Objects by kind, as a cluster lists them; selectors are not looked at."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = objects
        self.live: dict[str, Any] | None = None

    def list(self, kind: Kind, _namespace: str | None, **_selectors: str) -> list[dict[str, Any]]:
        return self.objects.get(kind.kind, [])

    def get(self, _place: Place) -> dict[str, Any] | None:
        return self.live


class _Row:
    """A row of `pulumi up` that nobody reads."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.said: list[str] = []

    def status(self, message: str) -> None:
        self.said.append(message)


def _cluster(**objects: list[dict[str, Any]]) -> Cluster:
    return cast(Cluster, _Cluster(**objects))


def _pod(state: Mapping[str, Any], phase: str = "Pending", **status: Any) -> dict[str, Any]:
    container = {"name": "main", "state": state, **status}
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "1", "creationTimestamp": ""},
        "status": {"phase": phase, "containerStatuses": [container]},
    }


def _workload(kind: str, spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "n", "uid": "w1", "generation": 2},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec},
        "status": {"observedGeneration": 2, **status},
    }


def _condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no"}}, {}, "failing"),
        ({"waiting": {"reason": "ErrImageNeverPull"}}, {}, "failing"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"restartCount": 1}, "waiting"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"restartCount": 2}, "failing"),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, "waiting"),
    ],
)
def test_a_pod_that_cannot_start_fails_and_one_that_starts_is_waited_for(
    state: dict[str, Any], more: dict[str, Any], expected: str
) -> None:
    assert pods.look(_cluster(), _pod(state, **more)).state == expected


def test_a_pods_end_decides() -> None:
    assert pods.look(_cluster(), _pod({}, "Succeeded")) == READY
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    assert "exit code 3" in pods.look(_cluster(), _pod(ended, "Failed")).message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}, "ready"),
        ({"updatedReplicas": 2, "availableReplicas": 2, "replicas": 3}, "waiting"),
        ({"updatedReplicas": 2, "availableReplicas": 1, "replicas": 2}, "waiting"),
        ({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}, "waiting"),
        (
            {"conditions": [_condition("Progressing", "False", "ProgressDeadlineExceeded")]},
            "failed",
        ),
        ({"conditions": [_condition("ReplicaFailure", "True", "FailedCreate")]}, "failing"),
    ],
)
def test_a_deployment_is_ready_when_all_of_it_is_new_and_available(
    status: dict[str, Any], expected: str
) -> None:
    obj = _workload("Deployment", {"replicas": 2}, **status)
    assert workloads.deployment(_cluster(), obj).state == expected


def test_a_deployment_fails_for_its_newest_pods_alone() -> None:
    revision = "deployment.kubernetes.io/revision"
    obj = _workload("Deployment", {"replicas": 1}, replicas=1)
    obj["metadata"]["annotations"] = {revision: "2"}
    own = {"ownerReferences": [{"uid": "w1"}], "labels": {"pod-template-hash": "h"}}
    stuck = _pod({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    for of, expected in (("1", "waiting"), ("2", "failing")):
        replica_set = {"metadata": {**own, "annotations": {revision: of}}}
        cluster = _cluster(ReplicaSet=[replica_set], Pod=[stuck])
        assert workloads.deployment(cluster, obj).state == expected


@pytest.mark.parametrize(
    ("look", "obj", "expected"),
    [
        (
            workloads.stateful_set,
            _workload("StatefulSet", {"replicas": 1}, readyReplicas=1, updatedReplicas=1),
            "ready",
        ),
        (
            workloads.stateful_set,
            _workload("StatefulSet", {"replicas": 1}, readyReplicas=1, updatedReplicas=0),
            "waiting",
        ),
        (workloads.daemon_set, _workload("DaemonSet", {}, desiredNumberScheduled=0), "ready"),
        (workloads.daemon_set, _workload("DaemonSet", {}, desiredNumberScheduled=1), "waiting"),
        (
            workloads.job,
            _workload("Job", {}, conditions=[_condition("Complete", "True")]),
            "ready",
        ),
        (
            workloads.job,
            _workload("Job", {}, conditions=[_condition("Failed", "True", "BackoffLimit")]),
            "failed",
        ),
        (workloads.job, _workload("Job", {}), "waiting"),
        (workloads.job, _workload("Job", {"suspend": True}), "ready"),
        (basics.namespace, {"status": {"phase": "Active"}}, "ready"),
        (basics.namespace, {"status": {"phase": "Terminating"}}, "waiting"),
        (basics.volume, {"status": {"phase": "Available"}}, "ready"),
        (basics.volume, {"status": {"phase": "Pending"}}, "waiting"),
        (basics.quota, {"spec": {"hard": {"a": "1"}}, "status": {"hard": {"a": "1"}}}, "ready"),
        (basics.quota, {"spec": {"hard": {"a": "1"}}}, "waiting"),
        (basics.token_secret, {"type": "Opaque"}, "ready"),
        (basics.token_secret, {"type": "kubernetes.io/service-account-token"}, "waiting"),
    ],
)
def test_other_kinds_are_judged_by_their_status(look: Any, obj: Any, expected: str) -> None:
    assert look(_cluster(), obj).state == expected


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        ({"selector": {"a": "b"}}, [], "waiting"),
        ({"selector": {"a": "b"}}, [{"conditions": {"ready": False}}], "waiting"),
        ({"selector": {"a": "b"}}, [{"conditions": {"ready": True}}], "ready"),
        ({"selector": {"a": "b"}, "clusterIP": "None"}, [], "ready"),
        ({"type": "ExternalName"}, [], "ready"),
        ({}, [], "ready"),
        ({"type": "LoadBalancer"}, [], "waiting"),
    ],
)
def test_a_service_is_ready_when_it_reaches_a_pod(
    spec: dict[str, Any], endpoints: list[Any], expected: str
) -> None:
    obj = {"metadata": {"name": "s", "namespace": "n"}, "spec": spec}
    cluster = _cluster(EndpointSlice=[{"endpoints": endpoints}])
    assert basics.service(cluster, obj).state == expected


@pytest.mark.parametrize(
    ("mode", "phase", "expected"),
    [
        ("WaitForFirstConsumer", "Pending", "ready"),
        ("Immediate", "Pending", "waiting"),
        ("Immediate", "Bound", "ready"),
        ("Immediate", "Lost", "failed"),
    ],
)
def test_a_claim_is_ready_when_bound_or_bound_later(mode: str, phase: str, expected: str) -> None:
    storage_class = {
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "volumeBindingMode": mode,
    }
    obj = {"spec": {}, "status": {"phase": phase}}
    assert basics.claim(_cluster(StorageClass=[storage_class]), obj).state == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("condition=Ready", "ready"),
        ("condition=Ready=false", "waiting"),
        ("condition=Absent", "waiting"),
        ("jsonpath={.status.phase}=Running", "ready"),
        ("jsonpath={.status.phase}=Done", "waiting"),
        ("jsonpath=.status.items[0].ip", "ready"),
        ("jsonpath={.status.items[1].ip}", "waiting"),
        ('["condition=Ready", "jsonpath={.status.phase}=Done"]', "waiting"),
    ],
)
def test_wait_for_reads_conditions_and_fields(expression: str, expected: str) -> None:
    status = {
        "conditions": [_condition("Ready", "True")],
        "phase": "Running",
        "items": [{"ip": "10.0.0.1"}],
    }
    assert wait_for(expression)(_cluster(), {"status": status}).state == expected


def test_a_wait_for_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a"):
        wait_for("Ready")
    with pytest.raises(ValueError, match="at least one"):
        wait_for("[]")
    with pytest.raises(Unserved, match="waitFor"):
        wait_for('jsonpath={.items[?(@.a=="b")].c}')


def test_what_the_annotations_say_goes_first() -> None:
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {}}}
    assert look_for(obj) is workloads.deployment
    obj["metadata"] = {"annotations": {"pulumi.com/skipAwait": "true"}}
    assert look_for(obj) is None
    obj["metadata"] = {"annotations": {"pulumi.com/timeoutSeconds": "7"}}
    assert wait.limit(0, obj) == 7
    assert wait.limit(3, obj) == 3
    assert wait.limit(0, {}) == wait.DEFAULT_SECONDS


def _until_ready(verdicts: list[Verdict], row: _Row, seconds: float = 5) -> dict[str, Any]:
    remaining = iter(verdicts)
    last = verdicts[-1]
    obj = {**_workload("Deployment", {}), "status": {}}
    cluster = _Cluster()
    cluster.live = obj
    return wait.until_ready(
        cast(Cluster, cluster),
        obj,
        lambda _cluster, _obj: next(remaining, last),
        seconds,
        cast(Context, row),
    )


def test_a_wait_shows_each_state_once_and_ends_when_ready() -> None:
    row = _Row()
    waiting = Verdict("waiting", "0 of 1")
    _until_ready([waiting, waiting, Verdict("waiting", "1 of 1"), READY], row)
    assert row.said == ["0 of 1", "1 of 1"]


def test_a_wait_ends_at_its_limit_with_the_last_state() -> None:
    with pytest.raises(wait.NotReady, match=r"not ready within 0.3 s: 0 of 1"):
        _until_ready([Verdict("waiting", "0 of 1")], _Row(), seconds=0.3)


def test_a_wait_ends_at_once_when_it_has_failed() -> None:
    with pytest.raises(wait.NotReady, match="Deployment n/w: broken"):
        _until_ready([Verdict("failed", "broken")], _Row())


def test_a_wait_gives_up_only_on_what_stays_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_GRACE_SECONDS", 0.5)
    failing = Verdict("failing", "no such image")
    _until_ready([failing, failing, READY], _Row())
    with pytest.raises(wait.NotReady, match="no such image"):
        _until_ready([failing], _Row())


def test_a_wait_ends_with_ctrl_c() -> None:
    row = _Row()
    threading.Timer(0.2, row.cancelled.set).start()
    started = time.monotonic()
    with pytest.raises(wait.NotReady, match="cancelled while waiting"):
        _until_ready([Verdict("waiting", "0 of 1")], row, seconds=60)
    assert time.monotonic() - started < 5
