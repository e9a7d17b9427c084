"""What stacks on Azure Local and Azure Stack Hub declare where nothing may lead to the internet."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.kubeconfig.found import Found
from clusters.nodes import DEVICE_PLUGIN as PLUGIN
from tests.program.addresses import public
from tests.program.declared import Declare, Program, templates

RUN = "slipway:jobs:PyTorchJob"
REGISTRY = "registry.site.internal"
PUBLIC = "registry.example.org/team/train:1"
MIRROR = f"{REGISTRY}/mirror/train@sha256:{'4f53cda18c2baa0c' * 4}"
PLUGIN_MIRROR = f"{REGISTRY}/mirror/k8s-device-plugin@sha256:{'7089559ce6153018' * 4}"
CONTROL_PLANE = "armmanagement.autonomous.cloud.private"
AWAY: Mapping[str, Any] = {
    "disconnected": {"controlPlane": CONTROL_PLANE},
    "adminKubeconfig": True,
    "entra": None,
    "gpu": None,
    "registry": {"server": f"{REGISTRY}/slipway", "mirrors": {PUBLIC: MIRROR}},
}
MINE = {"image": PUBLIC, "command": ["python3", "train.py"]}


@pytest.fixture
def logins(tmp_path: Path) -> str:
    """The file with a login to the registry."""
    file = tmp_path / "config.json"
    auth = base64.b64encode(b"pusher:a password").decode()
    file.write_text(json.dumps({"auths": {REGISTRY: {"auth": auth}}}))
    return str(file)


def test_azure_is_asked_for_at_its_own_control_plane(changed: Declare) -> None:
    away = changed("azure-stack", {"mnist-gloo": {}, "mine": MINE}, **AWAY)
    provider = away.one("pulumi:providers:azure-native").inputs
    assert provider["metadataHost"] == CONTROL_PLANE
    assert provider["disableInstanceDiscovery"] == "true"
    listed = away.one("slipway:clusters:AzureLocalKubeconfig").inputs
    assert listed["metadataHost"] == CONTROL_PLANE
    assert public(away, {REGISTRY}) == [], "nothing that is declared leads to the internet"
    here = changed("azure-stack", {"mnist-gloo": {}})
    assert "metadataHost" not in here.one("pulumi:providers:azure-native").inputs


def test_an_image_that_was_mirrored_is_run_from_the_private_registry(changed: Declare) -> None:
    run = changed("azure-stack", {"mine": MINE}, **AWAY).one(RUN)
    for template in templates(run).values():
        [container] = template["spec"]["containers"]
        assert container["image"] == MIRROR


def test_a_public_image_that_was_not_mirrored_is_refused(changed: Declare) -> None:
    mine = {**MINE, "image": "registry.example.org/team/train:2"}
    with pytest.raises(pulumi.RunError) as refused:
        changed("azure-stack", {"mine": mine}, **AWAY)
    assert (
        'slipway:jobs.mine.image: "registry.example.org/team/train:2" is not in a registry that '
        f"the cluster can reach; push it to {REGISTRY}"
    ) in str(refused.value)


def test_a_jobs_own_pull_secret_is_beside_the_registrys(changed: Declare, logins: str) -> None:
    registry = {"server": f"{REGISTRY}/slipway", "credentials": logins}
    run = changed("azure-stack", {"mnist-gloo": {"pullSecrets": ["hub"]}}, registry=registry).one(
        RUN
    )
    for template in templates(run).values():
        secrets = template["spec"]["imagePullSecrets"]
        assert secrets == [{"name": "hub"}, {"name": "slipway-registry"}]


@pytest.fixture
def hub(declared: Declare, logins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Return what runs the program on a cluster of Azure Stack Hub, which nobody looks at."""
    monkeypatch.setattr("clusters.kubeconfig.cluster.look", lambda *_: Found())
    kubeconfig = tmp_path / "hub.yaml"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config,"
        " clusters: [{name: hub, cluster: {server: 'https://10.30.0.4:6443'}}],"
        " users: [{name: me, user: {token: a token}}],"
        " contexts: [{name: hub, context: {cluster: hub, user: me}}]}"
    )

    def run(mirrors: Mapping[str, str]) -> Program:
        registry = {"server": f"{REGISTRY}/slipway", "credentials": logins, "mirrors": mirrors}
        cluster = {
            "kind": "kubeconfig",
            "path": str(kubeconfig),
            "context": "hub",
            "registry": registry,
            "disconnected": True,
            "gpus": {"perNode": 1, "nodes": 2, "devicePlugin": True},
        }
        return declared("hub", cluster=cluster, jobs={"mnist-gloo": {}, "mnist-nccl": {}})

    return run


def test_on_azure_stack_hub_nothing_that_is_declared_leads_to_the_internet(hub: Declare) -> None:
    assert public(hub({PLUGIN: PLUGIN_MIRROR}), {REGISTRY}) == []


def test_a_device_plugin_that_was_not_mirrored_is_refused(hub: Declare) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        hub({})
    assert f"slipway:cluster.registry.mirrors: lacks {PLUGIN}" in str(refused.value)
