"""Why a pod finds no room, in numbers, and whether it ever can."""

from typing import Any

from jobs.judge import shortage as room
from jobs.judge.shortage import Shortage


def node(cpu: str = "2", memory: str = "8Gi", **changed: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": changed.get("name", "one"), "labels": changed.get("labels", {})},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def pod(
    cpu: str, memory: str = "1Gi", *, on: str | None = None, phase: str = "Pending", **spec: Any
) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
    placed = {} if on is None else {"nodeName": on}
    return {
        "metadata": {},
        "spec": {"containers": [{"resources": resources}], **placed, **spec},
        "status": {"phase": phase},
    }


def job(cpu: str, workers: int) -> dict[str, Any]:
    template = {"spec": pod(cpu)["spec"]}
    replicas = {"replicas": workers, "template": template}
    return {"spec": {"pytorchReplicaSpecs": {"Worker": replicas}}}


def quota(**hard: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "team"},
        "spec": {"hard": {k.replace("_", "."): v for k, v in hard.items()}},
    }


def shortage(*args: Any, **kwargs: Any) -> Shortage:
    found = room.without_node(*args, **kwargs)
    assert found is not None
    return found


def test_a_pod_for_which_there_is_room_lacks_nothing() -> None:
    """The scheduler waits for its volume, for example."""
    others = [pod("1", on="one"), pod("2", on="two")]
    nodes = [node(), node(name="two")]
    assert room.without_node(pod("1"), nodes, others, may_grow=False) is None


def test_pods_that_are_being_deleted_make_room() -> None:
    leaves = pod("2", on="one", phase="Running") | {"metadata": {"deletionTimestamp": "now"}}
    assert room.without_node(pod("1"), [node()], [leaves], may_grow=False) is None


def test_more_than_any_node_has_never_fits() -> None:
    found = shortage(pod("64"), [node(), node("4")], [], may_grow=False)
    assert found.final
    assert (
        found.text
        == "it asks for 64 cores, 1 GiB memory, and no node has more than 4 cores for pods"
    )


def test_where_larger_nodes_may_come_to_be_it_is_waited_for() -> None:
    assert not shortage(pod("64"), [node()], [], may_grow=True).final


def test_what_others_have_taken_is_told_and_waited_for() -> None:
    others = [pod("1500m", on="one"), pod("1", on="one", phase="Succeeded"), pod("1")]
    found = shortage(pod("1"), [node()], others, may_grow=False)
    assert not found.final
    assert found.text == (
        "it asks for 1 cores, 1 GiB memory, and the most that a node has free is "
        "0.5 cores, 7 GiB memory"
    )


def test_only_nodes_with_the_labels_that_it_wants_count() -> None:
    wanted = pod("1", nodeSelector={"pool": "gpu"})
    found = shortage(wanted, [node()], [], may_grow=False)
    assert not found.final, "a label can be put on a node"
    assert "none of 1 nodes has the labels pool=gpu" in found.text
    small = node("500m", name="two", labels={"pool": "gpu"})
    assert shortage(wanted, [node(), small], [], may_grow=False).final


def test_a_gpu_that_no_node_tells_of_yet_is_waited_for() -> None:
    wanted = pod("1")
    wanted["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    found = shortage(wanted, [node()], [], may_grow=False)
    assert not found.final
    assert "0 nvidia.com/gpu" in found.text


def test_what_runs_before_counts_where_it_asks_for_more() -> None:
    init = pod("8")["spec"]["containers"]
    assert shortage(pod("1", initContainers=init), [node()], [], may_grow=False).final


def test_a_job_that_is_larger_than_its_quota_never_fits() -> None:
    found = room.over_quota(job("500m", 3), [quota(requests_cpu="1")])
    assert found is not None
    assert found.final
    assert found.text == (
        "the job asks for 1.5 cores (requests), and quota team has 1 cores (requests) in all"
    )
    assert room.over_quota(job("500m", 2), [quota(requests_cpu="1", pods="2")]) is None
    assert room.over_quota(job("500m", 3), [quota(pods="2")]) is not None
    assert room.over_quota(job("1m", 3), [quota(limits_memory="2Gi")]) is not None
