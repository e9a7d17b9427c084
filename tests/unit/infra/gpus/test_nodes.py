"""Why GPUs are not offered is told with the node, the reason, and what to do."""

from dataclasses import replace
from typing import Any

import pytest

from infra.gpus.gpu_ready import Seen, offering, reasons
from tests.unit.gpu_objects import POOL, SKU, node, plugin

CRASHED = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}


def only(seen: Seen, **pool: Any) -> str:
    (told,) = reasons(replace(POOL, **pool), seen)
    return told


def test_a_node_that_offers_its_gpus_is_no_problem() -> None:
    assert reasons(POOL, Seen([node()])) == []
    assert offering([node(), node("cpu", None)]) == [node()]


def test_a_node_that_is_not_ready_does_not_count_though_it_has_gpus() -> None:
    down = node(ready="False")
    assert offering([down]) == []
    assert only(Seen([down])) == "node gpu-1 is not Ready: container runtime is down"


def test_too_few_nodes_are_reported_with_the_labels() -> None:
    assert only(Seen([])) == "only 0 of 1 nodes with the labels pool=gpu exist"


def test_missing_nodes_are_reported_with_the_autoscalers_reason() -> None:
    told = reasons(POOL, Seen([], setbacks=["the subscription's quota: raise it (QuotaExceeded)"]))
    assert told[1] == (
        "the autoscaler can't add nodes: the subscription's quota: raise it (QuotaExceeded)"
    )


@pytest.mark.parametrize(
    "line",
    [
        "Failed to initialize NVML: could not load NVML library.",
        "nvml init failed: ERROR_LIBRARY_NOT_FOUND",
        "E1122 factory.go:115] Incompatible strategy detected auto",
    ],
)
def test_a_missing_driver_is_reported_with_its_installer(line: str) -> None:
    seen = Seen([node(gpus=None)], [plugin()], {"plugin-on-gpu-1": ["Starting OS watcher.", line]})
    told = only(seen)
    assert "has no NVIDIA driver for containers" in told
    assert line in told
    assert "AKS must install" in told


def test_a_plugin_that_cannot_start_is_reported_with_the_kubelets_reason() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
    told = only(Seen([node(gpus=None)], [plugin(waiting)]))
    assert "its device plugin is ImagePullBackOff no such host" in told


def test_another_crash_of_the_plugin_is_reported_with_its_last_line() -> None:
    seen = Seen([node(gpus=None)], [plugin(CRASHED)], {"plugin-on-gpu-1": ["panic: out of luck"]})
    told = only(seen)
    assert "CrashLoopBackOff" in told
    assert "panic: out of luck" in told


def test_a_missing_pod_of_the_plugin_is_reported_with_the_cause() -> None:
    seen = Seen([node(gpus=None)], warnings=["pods is forbidden: exceeded quota: compute"])
    assert only(seen) == (
        "node gpu-1 has no pod from DaemonSet slipway-gpu/nvidia-device-plugin: "
        "pods is forbidden: exceeded quota: compute"
    )


def test_the_plugin_of_another_node_does_not_speak_for_this_one() -> None:
    told = only(Seen([node(gpus=None)], [plugin(on="gpu-2")]))
    assert told.endswith("has no pod from DaemonSet slipway-gpu/nvidia-device-plugin yet")


def test_an_undeclared_taint_names_the_setting_to_add_it_to() -> None:
    taints = [SKU, {"key": "team", "value": "vision", "effect": "NoSchedule"}]
    told = only(Seen([node(gpus=None, taints=taints)]))
    assert "has the taint team=vision:NoSchedule" in told
    assert "add it to the pool's `taints`" in told


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "team", "value": "vision", "effect": "PreferNoSchedule"},
    ],
)
def test_temporary_and_harmless_taints_are_ignored(taint: Any) -> None:
    assert "taint" not in only(Seen([node(gpus=None, taints=[SKU, taint])]))


def test_a_cordoned_node_suggests_kubectl_uncordon() -> None:
    assert "`kubectl uncordon gpu-1`" in only(Seen([node(gpus=None, cordoned=True)]))


def test_gpus_that_the_plugin_holds_back_are_called_unhealthy() -> None:
    broken = node(gpus=0, capacity={"nvidia.com/gpu": "1"})
    assert "reports as unhealthy" in only(Seen([broken]))


def test_the_external_installer_of_the_plugin_is_named() -> None:
    told = only(Seen([node(gpus=None)]), device_plugin=False, driver="NVIDIA's GPU operator")
    assert "NVIDIA's GPU operator must install" in told


def test_only_the_first_of_many_nodes_are_listed() -> None:
    told = reasons(POOL, Seen([node(f"gpu-{number}", None) for number in range(9)]))
    assert len(told) == 6
    assert told[-1] == "and 4 more"
