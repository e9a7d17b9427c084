"""The device plugin has what it needs, and nothing more."""

import json
import re
from dataclasses import replace
from typing import Any

from clusters.nodes import DEVICE_PLUGIN, GpuPool
from infra.gpus.component import device_plugin
from tests.unit.gpu_objects import POOL


def daemon(pool: GpuPool = POOL) -> dict[str, Any]:
    _, found = device_plugin(pool, DEVICE_PLUGIN)
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def test_the_plugin_is_pinned_by_version_and_digest() -> None:
    assert re.fullmatch(r"\S+/k8s-device-plugin:v\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", DEVICE_PLUGIN)
    (container,) = daemon()["containers"]
    assert container["image"] == DEVICE_PLUGIN


def test_the_plugin_may_do_nothing_but_mount_the_kubelets_directory_and_tries_again() -> None:
    namespace, _ = device_plugin(POOL, DEVICE_PLUGIN)
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    spec = daemon()
    (container,) = spec["containers"]
    none = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == none
    assert spec["automountServiceAccountToken"] is False
    assert container["env"] == [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}]
    # Where a node may have no GPUs it waits.
    (any_node,) = daemon(replace(POOL, labels={}))["containers"]
    assert any_node["env"] == [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}]
    (volume,) = spec["volumes"]
    assert volume["hostPath"]["path"] == "/var/lib/kubelet/device-plugins"


def test_a_pool_that_went_through_the_engine_is_the_same_for_who_looks_at_it() -> None:
    for pool in (POOL, GpuPool(per_node=8, min_nodes=0, device_plugin=False)):
        assert GpuPool.from_input(json.loads(json.dumps(pool.as_input()))) == pool
        # Empty ones would show as a change each time.
        assert not [each for each in pool.as_input().values() if each in ({}, None)]
