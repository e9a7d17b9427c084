"""What the program declares on a cluster with GPUs: with no engine and no cluster."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from clusters.cluster import REGISTRY_LOGIN
from clusters.kinds import CLUSTERS
from tests.program import pretended
from tests.program.declared import (
    OUTPUTS,
    Declare,
    Program,
    manifest,
    pod,
    variables,
)

RUN, READY, IMAGE = "slipway:jobs:PyTorchJob", "slipway:infra:GpuReady", "slipway:images:Image"
DAEMONS, NAMESPACES = "kubernetes:apps/v1:DaemonSet", "kubernetes:core/v1:Namespace"


@pytest.fixture
def having(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Return what runs the program with a job, on a cluster with GPUs and these settings."""
    kinds: Any = CLUSTERS
    monkeypatch.setitem(kinds, "pretended", pretended.KIND)

    def run(job: str, said: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Program:
        return declared("test", cluster={"kind": "pretended", **settings}, jobs={job: {**said}})

    return run


def names(program: Program, kind: str) -> set[str]:
    return {each.name for each in program.of(kind)}


def test_a_gpu_job_waits_for_gpus_and_those_for_the_device_plugin(having: Declare) -> None:
    program = having("mnist-nccl")
    ready, plugin = program.one(READY), program.one(DAEMONS)
    assert plugin.urn in program.needs(ready)
    assert ready.urn in program.needs(program.one(RUN))
    (namespace,) = (each for each in program.of(NAMESPACES) if each.name == "slipway-gpu")
    assert namespace.urn in program.needs(plugin)


def test_jobs_without_gpus_do_not_wait_for_any(having: Declare) -> None:
    program = having("mnist-gloo")
    run = program.one(RUN)
    assert program.one(READY).urn not in program.needs(run)
    assert "nodeSelector" not in pod(run)


def test_the_device_plugin_comes_out_of_a_private_registry_that_has_it(having: Declare) -> None:
    program = having("mnist-gloo", private=True)
    spec = program.one(DAEMONS).inputs["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "registry.example.org/plugin@sha256:0"
    assert spec["imagePullSecrets"] == [{"name": REGISTRY_LOGIN}]
    secrets = [
        each for each in program.of("kubernetes:core/v1:Secret") if each.name == REGISTRY_LOGIN
    ]
    places = {each.inputs["metadata"]["namespace"]: each for each in secrets}
    assert places["slipway-gpu"].urn in program.needs(program.one(DAEMONS))


def test_the_device_plugin_of_the_cluster_is_not_installed_again(having: Declare) -> None:
    program = having("mnist-nccl", plugin=False)
    assert program.of(DAEMONS) == []
    assert "slipway-gpu" not in names(program, NAMESPACES)
    assert program.one(READY).inputs["pool"]["devicePlugin"] is False


def test_a_job_with_gpus_gets_selector_tolerations_and_variables(having: Declare) -> None:
    run = having("mnist-nccl").one(RUN)
    assert pod(run)["nodeSelector"] == {"pool": "gpu"}
    assert pod(run)["tolerations"][0]["key"] == "sku"
    assert variables(run)["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert run.inputs["job"]["startTimeout"] == 1800


def test_the_least_gpu_utilization_is_an_input_where_it_is_set(having: Declare) -> None:
    limited = having("mnist-nccl", {"minGpuUtilization": 20}).one(RUN)
    unset = having("mnist-nccl").one(RUN)
    assert limited.inputs["job"] == {**unset.inputs["job"], "minGpuUtilization": 20}
    assert manifest(limited) == manifest(unset)


def test_the_image_with_cuda_is_made_only_for_jobs_with_gpus(having: Declare) -> None:
    assert names(having("mnist-gloo", nodes=1), IMAGE) == {"slipway-trainer"}
    assert names(having("mnist-nccl", nodes=1), IMAGE) == {"slipway-trainer-cuda"}


def test_a_job_on_a_gpu_verifies_it(having: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"state": "Succeeded", "device": "cuda", "device_name": "Tesla T4"}
    monkeypatch.setitem(OUTPUTS, RUN, {"result": result})
    found = having("mnist-nccl", {"minAccuracy": 0}).outputs["cuda"]
    assert found == {"state": "verified", "by": "job mnist-nccl", "device_name": "Tesla T4"}


def test_no_such_output_without_gpus(declared: Declare) -> None:
    program = declared(jobs={"mnist-gloo": {}})
    assert "cuda" not in program.outputs
    assert program.of(READY) == []
