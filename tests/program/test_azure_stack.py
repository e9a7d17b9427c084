"""Stacks on Azure Local and Azure Stack Hub where nothing may lead to the internet."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.kubeconfig.found import Found
from clusters.nodes import DEVICE_PLUGIN as PLUGIN
from tests.program.declared import Declare, Program, templates

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

_TOP_LEVEL = (
    "ai|app|azure|biz|build|cloud|cn|co|com|de|dev|edu|eu|gg|goog|gov|info|io|ms|net|nvidia|org"
    "|run|sh|uk|us"
)
_HOST = re.compile(
    rf"(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:{_TOP_LEVEL})(?![\w-])(?!\.\w)",
    re.IGNORECASE,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/\s@\"']*@)?([^/\s:\"']+)", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_TEXTS = {"description", "installHint"}
"""Keys of texts that a person reads and no program follows."""
_GROUPS = ("kubeflow.org", "k8s.io", "kubernetes.io", "nvidia.com", "slipway.dev")
"""Ends of Kubernetes objects' names, which nobody resolves."""
_NAMES = {
    *("apiVersion", "apiGroup", "apiGroups", "fieldPath", "group", "key", "name"),
    *("resourceNames", "type"),
}
"""Keys that such a name may stand under."""


def public(program: Program) -> list[str]:
    """Return every address outside of the site, with where it is declared.

    An image without a host in its name is one of a public registry: container engines put it there.
    """
    return [
        f"{resource.name} ({resource.type}) {path}: {found}"
        for resource in program.resources
        for path, key, text in _strings(resource.inputs)
        if ".ipBlock.except[" not in path  # what may not be reached
        for found in _public(key, text)
    ]


def _public(key: str, text: str) -> Iterator[str]:
    if key in _TEXTS:
        return
    is_image = key in {"image", "reference", "pinned", "trainer"}
    if is_image and text and text.partition("/")[0] not in {REGISTRY, "localhost"}:
        yield text
    for host in {*_HOST.findall(text), *_URL.findall(text)} - {REGISTRY}:
        is_name = key in _NAMES and host.endswith(_GROUPS)
        is_private = host.endswith((".internal", ".private", ".svc", ".local"))
        if not (is_name or is_private or _NUMBERS.fullmatch(host)):
            yield host
    yield from (each for each in _NUMBERS.findall(text) if ip_address(each).is_global)


def _strings(value: Any, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each text with its path and the key that it stands under, lists' items too."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _strings(each, f"{path}.{name}", str(name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _strings(each, f"{path}[{index}]", key)
    elif isinstance(value, str):
        yield path, key, value


@pytest.fixture
def registry(tmp_path: Path) -> Mapping[str, Any]:
    """A registry that asks for a login."""
    file = tmp_path / "config.json"
    auth = base64.b64encode(b"pusher:a password").decode()
    file.write_text(json.dumps({"auths": {REGISTRY: {"auth": auth}}}))
    return {"server": f"{REGISTRY}/slipway", "credentials": str(file)}


def test_on_azure_local_nothing_that_is_declared_leads_to_the_internet(changed: Declare) -> None:
    """Azure is reached at the site's own control plane, and mirrored images are run."""
    away = changed("azure-stack", {"mnist-gloo": {}, "mine": MINE}, **AWAY)
    provider = away.one("providers:azure-native").inputs
    assert provider["metadataHost"] == CONTROL_PLANE
    assert provider["disableInstanceDiscovery"] == "true"
    assert away.one("AzureLocalKubeconfig").inputs["metadataHost"] == CONTROL_PLANE
    assert public(away) == []
    for template in templates(away.one("PyTorchJob", "mine")):
        assert [each["image"] for each in template["spec"]["containers"]] == [MIRROR]
    here = changed("azure-stack", {"mnist-gloo": {}})
    assert "metadataHost" not in here.one("providers:azure-native").inputs


def test_a_public_image_that_was_not_mirrored_is_refused(changed: Declare) -> None:
    mine = {**MINE, "image": "registry.example.org/team/train:2"}
    with pytest.raises(pulumi.RunError) as refused:
        changed("azure-stack", {"mine": mine}, **AWAY)
    assert (
        'slipway:jobs.mine.image: "registry.example.org/team/train:2" is not in a registry that '
        f"the cluster can reach; push it to {REGISTRY}"
    ) in str(refused.value)


def test_a_jobs_own_pull_secret_is_beside_the_registrys(
    changed: Declare, registry: Mapping[str, Any]
) -> None:
    jobs = {"mnist-gloo": {"pullSecrets": ["hub"]}}
    for template in templates(changed("azure-stack", jobs, registry=registry).one("PyTorchJob")):
        secrets = template["spec"]["imagePullSecrets"]
        assert secrets == [{"name": "hub"}, {"name": "slipway-registry"}]


def test_on_azure_stack_hub_nothing_that_is_declared_leads_to_the_internet(
    declared: Declare, registry: Mapping[str, Any], there_is: Any
) -> None:
    there_is(Found())
    cluster = {
        "kind": "kubeconfig",
        "context": "work",
        "disconnected": True,
        "gpus": {"perNode": 1, "nodes": 2, "devicePlugin": True},
        "registry": {**registry, "mirrors": {PLUGIN: PLUGIN_MIRROR}},
    }
    program = declared("hub", cluster=cluster, jobs={"mnist-gloo": {}, "mnist-nccl": {}})
    assert public(program) == []
