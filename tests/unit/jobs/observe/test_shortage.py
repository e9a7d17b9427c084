"""What a pod requests that no node or quota has, in numbers."""

from typing import Any

import pytest

from jobs.observe.obstacles import may_fit_quota, never_fits


def node(cpu: str = "2", memory: str = "8Gi", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def pod(cpu: str, memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
    return {"spec": {"containers": [{"resources": resources}], **spec}}


def test_more_than_any_node_has_never_fits() -> None:
    assert never_fits(pod("64"), [node(), node("4")]) == (
        "it requests 64 cores, 1 GiB memory, but no node has more than 4 cores for pods"
    )
    assert never_fits(pod("4"), [node(), node("4")]) is None


def test_what_containers_request_beside_each_other_is_added_up() -> None:
    both = pod("1500m")
    both["spec"]["containers"] *= 2
    assert "it requests 3 cores, 2 GiB memory" in str(never_fits(both, [node()]))


def test_only_nodes_with_the_labels_that_it_wants_count() -> None:
    selecting = pod("1", nodeSelector={"pool": "gpu"})
    assert never_fits(selecting, [node()]) is None, "a label can be put on a node"
    assert never_fits(selecting, [node(), node("500m", pool="gpu")]) is not None


def test_a_gpu_that_no_node_reports_yet_is_awaited() -> None:
    with_gpu = pod("1")
    with_gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    assert never_fits(with_gpu, [node()]) is None


def test_what_runs_before_counts_where_it_asks_for_more() -> None:
    init = pod("8")["spec"]["containers"]
    assert never_fits(pod("1", initContainers=init), [node()]) is not None


@pytest.mark.parametrize(
    ("requested", "own", "may"),
    [
        ("requests.memory=1Gi", [], True),
        ("requests.memory=1Gi", [pod("1", "512Mi")], True),
        ("requests.memory=1Gi", [pod("1", "513Mi")], False),
        ("requests.memory=2Gi", [], False),
        ("pods=1,requests.memory=1Gi", [pod("64", "1Mi")], True),
    ],
)
def test_a_quota_is_waited_for(requested: str, own: list[dict[str, Any]], may: bool) -> None:
    used, limited = "pods=3,requests.memory=1Gi", "pods=3,requests.memory=1536Mi"
    refusal = (
        'pods "mine-worker-0" is forbidden: exceeded quota: team, '
        f"requested: {requested}, used: {used}, limited: {limited}"
    )
    assert may_fit_quota(refusal, own) is may


def test_another_refusal_is_no_quotas() -> None:
    assert not may_fit_quota('pods "mine-worker-0" is forbidden: no such priority class', [])
