"""Why GPUs are not offered is told with the remedy; a job that computed on one verifies them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from infra.gpus.component import judge_cuda
from infra.gpus.gpu_ready import Seen, offering, reasons
from tests.unit.gpu_objects import POOL, SKU, node, plugin


def only(seen: Seen, **pool: Any) -> str:
    (told,) = reasons(replace(POOL, **pool), seen)
    return told


def test_a_node_that_offers_its_gpus_or_is_only_just_coming_is_no_problem() -> None:
    assert reasons(POOL, Seen([node()])) == []
    assert offering([node(), node("cpu", None), node(ready="False")]) == [node()]
    coming = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    harmless = {"key": "team", "value": "vision", "effect": "PreferNoSchedule"}
    assert "taint" not in only(Seen([node(gpus=None, taints=[SKU, coming, harmless])]))


BARE = node(gpus=None)
NONE_OF_PLUGIN = "has no pod from DaemonSet slipway-gpu/nvidia-device-plugin"
CRASHED = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
OUT_OF_LUCK: dict[str, Sequence[str]] = {"plugin-on-gpu-1": ["panic: out of luck"]}
VISION = {"key": "team", "value": "vision", "effect": "NoSchedule"}


NO_DRIVER = ["has no NVIDIA driver for containers", "AKS must install"]


def logged(line: str) -> Seen:
    return Seen([BARE], [plugin()], {"plugin-on-gpu-1": ["Starting OS watcher.", line]})


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        # The device plugin can't start, or crashes.
        (Seen([BARE], [plugin(PULLING)]), ["its device plugin is ImagePullBackOff no such host"]),
        (Seen([BARE], [plugin(CRASHED)], OUT_OF_LUCK), ["CrashLoopBackOff", "panic: out of luck"]),
        (logged("Failed to initialize NVML: could not load NVML library."), NO_DRIVER),
        (logged("nvml init failed: ERROR_LIBRARY_NOT_FOUND"), NO_DRIVER),
        (logged("E1122 factory.go:115] Incompatible strategy detected auto"), NO_DRIVER),
        # That of another node does not speak for this one.
        (Seen([BARE], [plugin(on="gpu-2")]), [f"{NONE_OF_PLUGIN} yet"]),
        (
            Seen([node(gpus=None, taints=[SKU, VISION])]),
            ["has the taint team=vision:NoSchedule", "add it to the pool's `taints`"],
        ),
        (Seen([node(gpus=None, cordoned=True)]), ["`kubectl uncordon gpu-1`"]),
        # The plugin holds them back.
        (Seen([node(gpus=0, capacity={"nvidia.com/gpu": "1"})]), ["reports as unhealthy"]),
    ],
)
def test_why_gpus_are_not_offered_is_reported_with_the_remedy(seen: Seen, words: list[str]) -> None:
    told = only(seen)
    assert [each for each in words if each not in told] == []


def test_the_external_installer_of_the_plugin_is_named() -> None:
    told = only(Seen([BARE]), device_plugin=False, driver="NVIDIA's GPU operator")
    assert "NVIDIA's GPU operator must install" in told


def test_what_is_not_there_is_all_that_is_reported() -> None:
    assert only(Seen([])) == "only 0 of 1 nodes with the labels pool=gpu exist"
    down = "node gpu-1 is not Ready: container runtime is down"
    assert only(Seen([node(ready="False")])) == down
    quota = "pods is forbidden: exceeded quota: compute"
    assert only(Seen([BARE], warnings=[quota])) == f"node gpu-1 {NONE_OF_PLUGIN}: {quota}"
    _, why = reasons(POOL, Seen([], setbacks=["the subscription's quota: raise it"]))
    assert why == "the autoscaler can't add nodes: the subscription's quota: raise it"


def test_only_the_first_of_many_nodes_are_listed() -> None:
    told = reasons(POOL, Seen([node(f"gpu-{number}", None) for number in range(9)]))
    assert len(told) == 6
    assert told[-1] == "and 4 more"


def test_a_job_that_computed_on_a_gpu_verifies_it_and_others_leave_the_reason() -> None:
    ready = {"state": "unverified", "reason": "the pool may have no nodes", "nodes": 0}
    for told in ({}, {"a": None}, {"a": {"state": "CannotStart"}}):
        assert judge_cuda(ready, told) == ready
    reason = "the cluster's GPUs are not ready"
    assert judge_cuda(None, {}) == {"state": "unverified", "reason": reason}
    ran = {"a": None, "b": {"device": "cuda", "device_name": "NVIDIA A100"}}
    verified = {"state": "verified", "by": "job b", "device_name": "NVIDIA A100"}
    assert judge_cuda(ready, ran) == {**verified, "nodes": 0}
