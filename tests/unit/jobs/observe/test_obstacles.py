"""A run whose nodes have to be made first says so, and ends only if these can't come."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any

import pytest

from core import kube
from jobs.api.client import JobApi
from jobs.model.pytorchjob import QUEUE_LABEL
from jobs.observe.obstacles import Obstacles, may_fit_quota, never_fits, see_events
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import (
    REFUSED_LOGIN,
    RUNNING,
    declared,
    done,
    job,
    pod,
    runs,
    seen,
    waiting,
    warning,
)
from tests.unit.not_none import not_none

DECLARED = declared(timeout=600, start_timeout=60)
CPU_NODE = {"metadata": {"name": "cpu"}, "status": {"allocatable": {"cpu": "2"}}}
PENDING = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
STATUS = """
nodeGroups:
  - name: aks-gpu-vmss
    scaleUp: {status: Backoff, backoffInfo: {errorCode: SkuNotAvailable, errorMessage: spot}}
"""


def homeless(rank: int) -> dict[str, Any]:
    found = pod(rank, conditions=[PENDING], phase="Pending")
    return found | {"spec": {**found["spec"], "nodeName": None, "nodeSelector": {"pool": "gpu"}}}


def about(rank: int, reason: str, message: str) -> dict[str, Any]:
    of = {"kind": "Pod", "uid": homeless(rank)["metadata"]["uid"]}
    event = {"type": "Normal", "reason": reason, "metadata": {"name": f"{reason}-{rank}"}}
    return {**warning(message), **event, "involvedObject": of}


MADE = about(1, "TriggeredScaleUp", "pod triggered scale-up: [{aks-gpu-vmss 0->2 (max: 4)}]")
NOT_MADE = about(
    1, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"
)


@pytest.fixture
def tracked() -> RunState:
    """A job of two ranks, neither of which has a node."""
    return seen("Created", homeless(0), homeless(1))


def test_what_never_fits_today_is_waited_for_while_a_node_is_being_made(tracked: RunState) -> None:
    tracked.shortage = "it requests 8 nvidia.com/gpu, but no node has more than 4"
    for events in ([], [NOT_MADE], [MADE | {"involvedObject": {"kind": "Pod", "uid": "other"}}]):
        see_events(tracked, events)
        assert tracked.status == "2 ranks: 2 waiting for a node"
        assert not_none(end_of(tracked, 1, DECLARED)).state == "CannotStart"
    for made in (MADE, about(1, "Nominated", "Pod should schedule on: nodeclaim/default-x7k2q")):
        see_events(tracked, [made])
        assert tracked.status == "2 ranks: 2 waiting for a node that is being added"
        assert end_of(tracked, 1, DECLARED) is None


QUOTA = (
    'Error creating: pods "mine-worker-0" is forbidden: exceeded quota: team, '
    "requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2"
)
HOOK = 'Error creating: admission webhook "x" denied the request: unsigned'


@pytest.mark.parametrize(
    ("why", "pods", "ends"),
    [(QUOTA, [1], False), (QUOTA, [], False), (HOOK, [0], True), (HOOK, [0, 1], False)],
    ids=["is there by now", "may fit once others have ended", "is final", "all are there by now"],
)
def test_pods_that_were_refused_end_a_run_only_if_they_are_not_there(
    why: str, pods: list[int], ends: bool
) -> None:
    event = {"reason": "FailedCreatePod", "message": why, "involvedObject": {"kind": "PyTorchJob"}}
    run = seen("Created", *map(homeless, pods))
    for each in run.replicas.values():
        each.pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    see_events(run, [event])
    assert (end_of(run, 1, DECLARED) is not None) is ends


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster of one node without GPUs, and with an autoscaler that waits after a failure."""
    made = FakeApi()
    core = "/api/v1/namespaces"
    made.says("GET", f"{core}/slipway-jobs/events", {"items": [NOT_MADE]})
    made.says("GET", "/api/v1/nodes", {"items": [CPU_NODE]})
    status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": STATUS}}
    made.says("GET", f"{core}/kube-system/configmaps", {"items": [status]})
    made.says("GET", f"{core}/kube-system/events", {"items": []})
    with served(made):
        yield made


def obstacles(api: FakeApi, run: RunState, warn: Callable[[str], None]) -> Obstacles:
    client = JobApi(kube.connect(api.kubeconfig), "slipway-jobs", "mine", retry_seconds=0)
    return Obstacles(client, run, warn)


def looked(api: FakeApi, tracked: RunState) -> list[str]:
    told: list[str] = []
    obstacles(api, tracked, told.append).look()
    return told


def test_the_reason_why_no_node_is_created_is_explained_and_in_the_end(
    api: FakeApi, tracked: RunState
) -> None:
    told = looked(api, tracked)
    reason = "the pool is at its maximum size (no node is being created"
    assert any(line.startswith(reason) for line in told)
    (setback,) = (line for line in told if "aks-gpu-vmss" in line)
    assert "no machines of this size are available right now (spot machines run out" in setback
    end = not_none(end_of(tracked, 61, DECLARED))
    assert "no node is being created for it: 1 max node group size reached" in end.reason
    assert "SkuNotAvailable" in end.reason


def test_a_forbidden_autoscaler_namespace_leaves_the_rest(api: FakeApi, tracked: RunState) -> None:
    refused = {"kind": "Status", "message": "configmaps is forbidden"}
    api.says("GET", "/api/v1/namespaces/kube-system/configmaps", refused, status=403)
    assert any("no node is being created for it" in line for line in looked(api, tracked))
    assert end_of(tracked, 1, DECLARED) is None


@pytest.mark.parametrize(("cloud", "ends"), [("", 1000), ("aws:///i-1", 1060)])
def test_what_no_node_can_fit_ends_the_run(
    api: FakeApi, tracked: RunState, monkeypatch: pytest.MonkeyPatch, cloud: str, ends: int
) -> None:
    """In a cloud an autoscaler whose status is elsewhere, or none, has a minute to respond."""
    large = homeless(0)
    container = {"name": "pytorch", "resources": {"requests": {"cpu": "8"}, "limits": {}}}
    large["spec"] |= {"nodeSelector": {}, "containers": [container]}
    tracked.see_pods([large])
    api.says("GET", "/api/v1/nodes", {"items": [CPU_NODE | {"spec": {"providerID": cloud}}]})
    looked(api, tracked)
    assert end_of(tracked, 1, DECLARED) is None, "the autoscaler may add a larger one"
    api.says("GET", "/api/v1/namespaces/kube-system/configmaps", {"items": []})
    watched = obstacles(api, tracked, lambda _: None)
    for now in (1000, 1059, 1070):
        clock = SimpleNamespace(monotonic=lambda now=now: now)
        monkeypatch.setattr("jobs.observe.obstacles.time", clock)
        watched.look()
        assert (end_of(tracked, 1, DECLARED) is None) is (now < ends)
    end = not_none(end_of(tracked, 1, DECLARED))
    assert "it requests 8 cores, but no node has more than 2 cores" in end.reason


def test_a_scheduler_that_has_placed_a_pod_is_silent(api: FakeApi, tracked: RunState) -> None:
    refused = about(1, "FailedScheduling", "0/1 nodes are available")
    api.says("GET", "/api/v1/namespaces/slipway-jobs/events", {"items": [refused]})
    watched = obstacles(api, tracked, pytest.fail)
    assert watched.events() == [refused]
    tracked.see_pods([pod(0), pod(1)])
    assert watched.events() == []


def test_a_login_that_is_waited_for_is_warned_of_and_says_why(
    api: FakeApi, tracked: RunState
) -> None:
    tracked.see_pods([pod(0, state=waiting("ErrImagePull", REFUSED_LOGIN), phase="Pending")])
    [told] = [each for each in looked(api, tracked) if "refuses the nodes' credentials" in each]
    assert told.startswith("rank 0 (mine-master-0)")


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/jobs/workloads"
GROUP = {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}
FULL = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"


def workload(*conditions: tuple[str, str, str]) -> dict[str, Any]:
    shown = [{"type": type_, "status": status, "message": m} for type_, status, m in conditions]
    return {"spec": {"queueName": "research"}, "status": {"conditions": shown}}


NO_QUOTA = workload(("QuotaReserved", "False", FULL))
IN_CHECK = workload(("QuotaReserved", "True", ""), ("Admitted", "False", "wait"))


@pytest.mark.parametrize(
    ("workloads", "reason"),
    [
        ([NO_QUOTA], f"in the Kueue queue research: {FULL}"),
        ([IN_CHECK], "in the Kueue queue research: wait"),
        ([workload()], "in the Kueue queue research"),
        ([], "until its `runPolicy.suspend` is unset"),
        (None, "until its `runPolicy.suspend` is unset"),
        ("forbidden", "in the Kueue queue research"),
    ],
    ids=[
        *("no quota", "an admission check", "not looked at yet", "no Workload yet", "no Kueue"),
        "no right to read",
    ],
)
def test_the_row_of_a_suspended_run_shows_kueues_reason(
    workloads: list[dict[str, Any]] | str | None, reason: str
) -> None:
    """Without Kueue it shows the suspension alone; without the right to read, the job's queue."""
    run = seen("Created")
    run.job["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    run.job["spec"]["runPolicy"] = {"suspend": True}
    with served(FakeApi()) as api:
        if workloads is not None:
            api.says("GET", "/apis/kueue.x-k8s.io", GROUP)
            status = 403 if workloads == "forbidden" else 200
            api.says("GET", WORKLOADS, {"items": workloads}, status)
        Obstacles(JobApi.connect(api.kubeconfig, "jobs", "mine"), run, lambda _: None).look()
    assert run.status == f"2 ranks: suspended, {reason}"
    lists = [path for _, path, _ in api.asked if path.startswith(WORKLOADS)]
    assert all("job-uid%3Djob-uid" in path for path in lists)


SLICES = "/apis/discovery.k8s.io/v1/namespaces/slipway-jobs/endpointslices"


def left_behind(rank: int, address: str = "10.1.0.7") -> dict[str, Any]:
    waits = pod(rank, init=RUNNING, phase="Pending")
    waits["status"]["podIP"] = address
    return waits


def test_workers_whose_master_has_ended_before_they_found_it_are_led_on_once(api: FakeApi) -> None:
    """Its name leads each to itself: that is all that the operator's init container asks for."""
    api.says("POST", SLICES, {})
    run = seen(job("Succeeded", workers=3), runs(0), left_behind(1))
    watched = obstacles(api, run, pytest.fail)
    watched.look()
    assert SLICES not in {path for _, path, _ in api.asked}, "it may still find its Master"
    run.see_pods([done(0), left_behind(1), left_behind(2, "fd00::7"), runs(3)])
    watched.look()
    watched.look()
    bodies = [body for method, path, body in api.asked if (method, path) == ("POST", SLICES)]
    own = ("mine-worker-0", "IPv4", "10.1.0.7"), ("mine-worker-1", "IPv6", "fd00::7")
    for made, (name, family, address) in zip(bodies, own, strict=True):
        assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "mine-master-0"
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Pod", name)
        assert (made["addressType"], made["endpoints"]) == (family, [{"addresses": [address]}])


def test_a_missing_permission_is_reported(api: FakeApi) -> None:
    message = "endpointslices is forbidden"
    api.says("POST", SLICES, {"kind": "Status", "message": message}, status=403)
    run = seen("Succeeded", done(0), left_behind(1))
    (told,) = (each for each in looked(api, run) if message in each)
    assert "rank 1 (mine-worker-0) is waiting for rank 0, which has finished" in told
    assert "docs/existing-cluster.md" in told


def having(cpu: str = "2", memory: str = "8Gi", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def asking(cpu: str, memory: str = "1Gi", containers: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory, **more.pop("requests", {})}}
    return {"spec": {"containers": [{"resources": resources}] * containers, **more}}


WITH_GPU = asking("1", requests={"nvidia.com/gpu": "1"})
NO_GPU = having() | {"status": {"allocatable": {"cpu": "2", "nvidia.com/gpu": "0"}}}
SELECTING = asking("1", nodeSelector={"pool": "gpu"})
INIT = asking("1", initContainers=asking("8")["spec"]["containers"])


@pytest.mark.parametrize(
    ("asked", "nodes", "reason"),
    [
        (asking("64"), [having(), having("4")], "64 cores, 1 GiB memory, but no * than 4 cores *"),
        (asking("4"), [having(), having("4")], None),
        # Containers that run beside each other are added up, one that runs before is not.
        (asking("1500m", containers=2), [having()], "3 cores, 2 GiB memory, *"),
        (INIT, [having()], "8 cores, *"),
        # Only nodes with the labels that it wants count; a label can be put on a node.
        (SELECTING, [having(), having("500m", pool="gpu")], "1 cores, *"),
        (SELECTING, [having()], None),
        # A GPU may still be reported; while the device plugin starts again, there are 0.
        (WITH_GPU, [having()], None),
        (WITH_GPU, [NO_GPU], None),
    ],
)
def test_more_than_any_node_has_never_fits(
    asked: dict[str, Any], nodes: list[dict[str, Any]], reason: str | None
) -> None:
    found = never_fits(asked, nodes)
    assert found == reason or fnmatchcase(str(found), f"it requests {reason}")


@pytest.mark.parametrize(
    ("requested", "own", "may"),
    [
        ("requests.memory=1Gi", [asking("1", "512Mi")], True),
        ("requests.memory=1Gi", [asking("1", "513Mi")], False),
        ("requests.memory=2Gi", [], False),
        ("pods=1,requests.memory=1Gi", [asking("64", "1Mi")], True),
        ("limits.memory=1Gi", [asking("1", "513Mi")], False),
    ],
)
def test_a_quota_is_waited_for(requested: str, own: list[dict[str, Any]], may: bool) -> None:
    used = "pods=3,requests.memory=1Gi"
    limited = "pods=3,requests.memory=1536Mi,limits.memory=1536Mi"
    refusal = (
        'pods "mine-worker-0" is forbidden: exceeded quota: team, '
        f"requested: {requested}, used: {used}, limited: {limited}"
    )
    assert may_fit_quota(refusal, own) is may
    assert not may_fit_quota('pods "mine-worker-0" is forbidden: no such priority class', own)
