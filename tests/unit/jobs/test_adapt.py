"""A job that asks for GPUs is told of the nodes that have them, and keeps what it says itself."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.nodes import GpuPool, Taint
from jobs.adapt import FALLBACK_SECONDS, GROWN_SECONDS, on_gpu_nodes, wants_gpus
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Toleration

SPOT = Taint("kubernetes.azure.com/scalesetpriority", "spot")
POOL = GpuPool(
    per_node=4, min_nodes=0, max_nodes=8, labels={"pool": "gpu"}, taints=(Taint("sku", "gpu"), SPOT)
)
NCCL = CATALOG["mnist-nccl"]


def own(**fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", script="train.py", gpus=1, **fields)


def test_nccl_jobs_go_to_the_pool_and_get_its_interface_and_a_timeout_dumps_its_trace() -> None:
    found = on_gpu_nodes(NCCL, POOL)
    assert found.node_selector == {"pool": "gpu"}
    assert found.tolerations == (
        Toleration(key="sku", value="gpu", effect="NoSchedule"),
        Toleration(key=SPOT.key, value="spot", effect="NoSchedule"),
    )
    interface = {"NCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    dump = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    assert found.env.items() >= {**interface, **dump}.items()
    assert int(str(found.env["TORCH_NCCL_TRACE_BUFFER_SIZE"])) > 0
    assert str(found.env["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]).startswith("/work/outputs/")
    unnamed = on_gpu_nodes(NCCL, GpuPool(per_node=1, interface=None)).env
    assert not interface.keys() & unnamed.keys(), "they choose themselves"
    assert unnamed["NCCL_DEBUG"] == "WARN"


def test_what_a_job_says_itself_stays() -> None:
    fields: dict[str, Any] = {
        "node_selector": {"pool": "mine"},
        "tolerations": (Toleration(operator="Exists"),),
        "start_timeout": 40,
        "args": ("--epochs", "1"),  # a program of its own knows no others
    }
    told = on_gpu_nodes(own(env={"NCCL_DEBUG": "INFO"}, **fields), POOL)
    assert (told.env["NCCL_DEBUG"], told.env["NCCL_SOCKET_IFNAME"]) == ("INFO", "=eth0")
    assert {name: getattr(told, name) for name in fields} == fields
    demo = TrainingJob(name="mine", module="mnist", gpus=1, args=("--timeout=2",))
    assert on_gpu_nodes(demo, POOL).args == demo.args
    assert on_gpu_nodes(own(timeout=900), POOL).start_timeout == 900, "no longer than it may take"
    assert on_gpu_nodes(own(timeout=100), POOL).start_timeout == own().start_timeout


@pytest.mark.parametrize(
    ("fields", "covers"),
    [
        ({"value": "gpu", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "effect": "NoExecute", "toleration_seconds": 5}, False),
        ({"value": "gpu"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_a_toleration_replaces_a_taints_if_it_covers_it(fields: Any, covers: bool) -> None:
    said = Toleration(key="sku", **fields)
    told = on_gpu_nodes(own(tolerations=(said,)), POOL).tolerations
    assert said in told
    assert (Toleration(key="sku", value="gpu", effect="NoSchedule") in told) is not covers
    assert len(told) == (2 if covers else 3)


@pytest.mark.parametrize(
    ("pool", "seconds", "args"),
    [
        (POOL, GROWN_SECONDS, ("--timeout", "30")),
        (GpuPool(per_node=4, min_nodes=2, max_nodes=2), NCCL.start_timeout, ()),
        (replace(POOL, fallback=True), FALLBACK_SECONDS, ("--timeout", "45")),
    ],
    ids=["grows", "steady", "other nodes take over"],
)
def test_a_job_waits_longer_where_nodes_have_to_be_made_first(
    pool: GpuPool, seconds: int, args: tuple[str, ...]
) -> None:
    """A rank that runs must not give up others whose node is still being made."""
    told = on_gpu_nodes(NCCL, pool)
    assert (told.start_timeout, told.args) == (seconds, args)


def test_a_job_without_gpus_and_a_cluster_without_them_change_nothing() -> None:
    assert on_gpu_nodes(CATALOG["mnist-gloo"], POOL) is CATALOG["mnist-gloo"]
    assert on_gpu_nodes(NCCL, None) is NCCL
    assert wants_gpus(own()), "gloo, too, may have them"
