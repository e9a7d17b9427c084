"""What the program declares on a cluster with GPUs: with no engine and no cluster."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from pulumi.runtime import rpc

from clusters.cluster import REGISTRY_LOGIN
from tests.program.declared import OUTPUTS, Declare, Program, manifest, pod

pytestmark = pytest.mark.usefixtures("pretended")


@pytest.fixture
def having(declared: Declare) -> Declare:
    """Run the program with a job, on a cluster with GPUs and these settings."""

    def run(job: str, own: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Program:
        return declared("test", cluster={"kind": "pretended", **settings}, jobs={job: {**own}})

    return run


def test_a_gpu_job_waits_for_gpus_and_those_for_the_device_plugin(having: Declare) -> None:
    program = having("mnist-nccl")
    run, ready, plugin = map(program.one, ("PyTorchJob", "GpuReady", "DaemonSet"))
    assert ready.urn in program.needs(run)
    assert plugin.urn in program.needs(ready)
    assert program.one("Namespace", "slipway-gpu").urn in program.needs(plugin)
    assert program.names("Image") == ["slipway-trainer-cuda"]
    assert pod(run)["nodeSelector"] == {"pool": "gpu"}


def test_jobs_without_gpus_do_not_wait_for_any(having: Declare) -> None:
    program = having("mnist-gloo")
    run = program.one("PyTorchJob")
    assert program.one("GpuReady").urn not in program.needs(run)
    assert "nodeSelector" not in pod(run)
    assert program.names("Image") == ["slipway-trainer"]


def test_the_device_plugin_comes_out_of_a_private_registry_that_has_it(having: Declare) -> None:
    program = having("mnist-gloo", private=True)
    plugin = program.one("DaemonSet")
    spec = plugin.inputs["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "registry.example.org/plugin@sha256:0"
    assert spec["imagePullSecrets"] == [{"name": REGISTRY_LOGIN}]
    (login,) = (
        each for each in program.of("Secret")
        if each.name == REGISTRY_LOGIN and each.inputs["metadata"]["namespace"] == "slipway-gpu"
    )  # fmt: skip
    assert login.urn in program.needs(plugin)


def test_the_device_plugin_of_the_cluster_is_not_installed_again(having: Declare) -> None:
    program = having("mnist-nccl", plugin=False)
    assert program.of("DaemonSet") == []
    assert "slipway-gpu" not in program.names("Namespace")
    assert program.one("GpuReady").inputs["pool"]["devicePlugin"] is False


def test_the_least_gpu_utilization_is_an_input_where_it_is_set(having: Declare) -> None:
    limited = having("mnist-nccl", {"minGpuUtilization": 20}).one("PyTorchJob")
    unset = having("mnist-nccl").one("PyTorchJob")
    assert limited.inputs["job"] == {**unset.inputs["job"], "minGpuUtilization": 20}
    assert manifest(limited) == manifest(unset)


def test_a_job_on_a_gpu_verifies_it(having: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"state": "Succeeded", "device": "cuda", "device_name": "Tesla T4"}
    monkeypatch.setitem(OUTPUTS, "slipway:jobs:PyTorchJob", {"result": result})
    # Of a resource that failed or was skipped, the SDK does not know any output.
    monkeypatch.setitem(OUTPUTS, "slipway:infra:GpuReady", {"cuda": rpc.UNKNOWN})
    found = having("mnist-nccl", {"minAccuracy": 0}).outputs["cuda"]
    assert found == {"state": "verified", "by": "job mnist-nccl", "device_name": "Tesla T4"}
