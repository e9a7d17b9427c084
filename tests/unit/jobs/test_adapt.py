"""A job that asks for GPUs is told of the nodes that have them, and keeps what it says itself."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.nodes import GpuPool, Taint
from jobs.adapt import FALLBACK_SECONDS, GROWN_SECONDS, on_gpu_nodes, wants_gpus
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Toleration
from tests.unit.jobs_declared import rendered

SPOT = Taint("kubernetes.azure.com/scalesetpriority", "spot")
POOL = GpuPool(
    per_node=4, min_nodes=0, max_nodes=8, labels={"pool": "gpu"}, taints=(Taint("sku", "gpu"), SPOT)
)
STEADY = GpuPool(per_node=4, min_nodes=2, max_nodes=2)
NCCL = CATALOG["mnist-nccl"]


def own(**fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", script="train.py", gpus=1, **fields)


def pod(job: TrainingJob) -> dict[str, Any]:
    worker = rendered(job)["spec"]["pytorchReplicaSpecs"]["Worker"]
    found: dict[str, Any] = worker["template"]["spec"]
    return found


def variables(job: TrainingJob) -> dict[str, str]:
    (container,) = pod(job)["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.parametrize("name", ["mnist-nccl", "cifar-nccl"])
def test_the_catalogues_nccl_jobs_go_to_the_pool_and_tolerate_its_taints(name: str) -> None:
    found = pod(on_gpu_nodes(CATALOG[name], POOL))
    assert found["nodeSelector"] == {"pool": "gpu"}
    assert found["tolerations"] == [
        {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
        {"key": SPOT.key, "operator": "Equal", "value": "spot", "effect": "NoSchedule"},
    ]
    (container,) = found["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_nccl_and_gloo_get_the_pools_interface_in_their_syntax() -> None:
    told = variables(on_gpu_nodes(NCCL, POOL))
    assert told["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert told["GLOO_SOCKET_IFNAME"] == "eth0"


def test_without_a_known_interface_nccl_and_gloo_choose_themselves() -> None:
    told = variables(on_gpu_nodes(NCCL, GpuPool(per_node=1, interface=None)))
    assert not {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} & told.keys()
    assert told["NCCL_DEBUG"] == "WARN"


def test_a_collective_timeout_ends_the_process_and_dumps_its_trace() -> None:
    told = variables(on_gpu_nodes(NCCL, POOL))
    assert told["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "3"
    assert told["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert int(told["TORCH_NCCL_TRACE_BUFFER_SIZE"]) > 0
    assert told["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"].startswith("/work/outputs/")


def test_what_a_job_says_itself_stays() -> None:
    every = Toleration(operator="Exists")
    told = on_gpu_nodes(
        own(
            env={"NCCL_DEBUG": "INFO"},
            node_selector={"pool": "mine"},
            tolerations=(every,),
            start_timeout=40,
        ),
        POOL,
    )
    assert told.env["NCCL_DEBUG"] == "INFO"
    assert told.env["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert told.node_selector == {"pool": "mine"}
    assert told.tolerations == (every,)
    assert told.start_timeout == 40


@pytest.mark.parametrize(
    "half",
    [
        Toleration(key="sku", value="cpu"),
        Toleration(key="sku", value="gpu", effect="NoExecute"),
        Toleration(key="sku", operator="Exists", effect="NoExecute", toleration_seconds=5),
    ],
)
def test_a_toleration_must_cover_the_taint_to_replace_it(half: Toleration) -> None:
    told = on_gpu_nodes(own(tolerations=(half,)), POOL).tolerations
    assert Toleration(key="sku", value="gpu", effect="NoSchedule") in told
    assert half in told


@pytest.mark.parametrize(
    "whole",
    [
        Toleration(key="sku", value="gpu"),
        Toleration(key="sku", operator="Exists"),
        Toleration(key="sku", operator="Exists", effect="NoSchedule"),
    ],
)
def test_a_taint_that_the_job_tolerates_is_not_duplicated(whole: Toleration) -> None:
    told = on_gpu_nodes(own(tolerations=(whole,)), POOL).tolerations
    assert [each.key for each in told] == ["sku", SPOT.key]


def test_a_job_waits_longer_where_nodes_have_to_be_made_first() -> None:
    told = on_gpu_nodes(NCCL, POOL)
    assert told.start_timeout == GROWN_SECONDS
    # A rank that runs must not give up others whose node is still being made.
    assert told.args == ("--timeout", "30")
    assert on_gpu_nodes(NCCL, STEADY).start_timeout == NCCL.start_timeout
    assert on_gpu_nodes(NCCL, STEADY).args == ()


def test_a_job_waits_still_longer_where_other_nodes_take_over() -> None:
    told = on_gpu_nodes(NCCL, replace(POOL, fallback=True))
    assert told.start_timeout == FALLBACK_SECONDS
    assert told.args == ("--timeout", "45")


def test_a_job_never_waits_longer_for_its_start_than_it_may_take_in_all() -> None:
    assert on_gpu_nodes(own(timeout=900), POOL).start_timeout == 900
    assert on_gpu_nodes(own(timeout=100), POOL).start_timeout == own().start_timeout


def test_a_custom_program_gets_no_unknown_argument() -> None:
    assert on_gpu_nodes(own(args=("--epochs", "1")), POOL).args == ("--epochs", "1")


def test_an_argument_that_says_how_long_ranks_wait_stays() -> None:
    job = TrainingJob(name="mine", module="mnist", gpus=1, args=("--timeout=2",))
    assert on_gpu_nodes(job, POOL).args == ("--timeout=2",)


def test_a_job_without_gpus_and_a_cluster_without_them_change_nothing() -> None:
    assert on_gpu_nodes(CATALOG["mnist-gloo"], POOL) is CATALOG["mnist-gloo"]
    assert on_gpu_nodes(NCCL, None) is NCCL


def test_gloo_jobs_with_gpus_go_to_the_pool_too() -> None:
    job = TrainingJob(name="mine", module="mnist", gpus=1)
    assert wants_gpus(job)
    assert on_gpu_nodes(job, POOL).node_selector == {"pool": "gpu"}


def test_a_pool_grows_when_it_may_come_to_more_nodes_than_it_begins_with() -> None:
    two = GpuPool(per_node=1, min_nodes=1, max_nodes=2)
    started = [on_gpu_nodes(NCCL, each).start_timeout for each in (POOL, two)]
    assert started == [GROWN_SECONDS, GROWN_SECONDS]
    fixed = [on_gpu_nodes(NCCL, each).start_timeout for each in (STEADY, GpuPool(per_node=1))]
    assert fixed == [NCCL.start_timeout, NCCL.start_timeout]
