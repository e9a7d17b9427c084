"""The settings of a cluster on Azure Local: what goes together, and what they come to."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from clusters import azure_stack
from clusters.azure_local.settings import Settings
from clusters.pools import Taint
from core.validation import check
from infra import settings

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = yaml.safe_load((ROOT / "stacks/azure-stack.yaml").read_text())["config"]
CLUSTER: dict[str, Any] = {
    key: value for key, value in TEMPLATE["slipway:cluster"].items() if key != "kind"
}
LARGE = {
    "vmSwitch": "a",
    "prefix": "10.20.0.0/16",
    "gateway": "10.20.0.1",
    "dnsServers": ["10.20.0.2"],
}


def document() -> str:
    return (ROOT / "docs/azure-local.md").read_text()


def read(**changes: Any) -> Settings | list[str]:
    """Return the template's settings with others for some; None leaves one out."""
    merged = {"name": "site", **CLUSTER, **changes}
    given = {key: value for key, value in merged.items() if value is not None}
    found = check(Settings, given, "cluster")
    return [str(each) for each in found] if isinstance(found, list) else found


def accepted(**changes: Any) -> Settings:
    found = read(**changes)
    assert isinstance(found, Settings), found
    return found


def test_the_templates_settings_are_accepted() -> None:
    assert accepted().subscription == "00000000-0000-0000-0000-000000000000"


def test_every_example_in_the_documentation_is_accepted() -> None:
    examples = [
        yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", document(), re.DOTALL)
    ]
    assert len(examples) == 2
    for example in examples:
        told = {key: json.dumps(value) for key, value in example["config"].items()}
        assert settings.parse(told, "site").jobs


def test_every_key_is_documented() -> None:
    table = "".join(re.findall(r"^\| `[^|]*\|", document(), re.MULTILINE))
    # What AKS on Azure Local is told besides its name.
    known = {to_camel(each.name) for each in fields(Settings)} - {"name"}
    assert set(re.findall(r"`(\w+)`", table)) == known


@pytest.mark.parametrize(
    ("key", "changes", "says"),
    [
        (
            "logicalNetwork.poolEnd",
            {"logicalNetwork": {**LARGE, "poolStart": "10.20.0.9", "poolEnd": "10.21.0.9"}},
            '"10.21.0.9" is not in prefix, 10.20.0.0/16',
        ),
        (
            "logicalNetwork.poolEnd",
            {"logicalNetwork": {**LARGE, "poolStart": "10.20.0.99", "poolEnd": "10.20.0.50"}},
            '"10.20.0.50" is before poolStart, "10.20.0.99"',
        ),
        (
            "logicalNetwork.gateway",
            {"logicalNetwork": {**LARGE, "poolStart": "10.20.0.1", "poolEnd": "10.20.0.50"}},
            '"10.20.0.1" is one of the pool\'s, which machines may be given',
        ),
        (
            "logicalNetwork.poolEnd",
            {"logicalNetwork": {**LARGE, "poolStart": "10.20.0.20", "poolEnd": "10.20.0.24"}},
            '"10.20.0.24" leaves 5 addresses, while the machines and an upgrade need 7',
        ),
        (
            "controlPlane.address",
            {"controlPlane": {"address": "10.30.0.10"}},
            '"10.30.0.10" is not in the prefix of logicalNetwork, 10.20.0.0/24',
        ),
        (
            "pods",
            {"pods": "10.20.0.0/16"},
            '"10.20.0.0/16" overlaps the prefix of logicalNetwork, 10.20.0.0/24',
        ),
        (
            "gpu.gpusPerNode",
            {"gpu": {"size": "Standard_NK12", "gpusPerNode": 1}},
            "1 is not allowed; a node of size Standard_NK12 has 2",
        ),
        (
            "gpu.maxNodes",
            {"gpu": {"size": "Standard_NK12", "minNodes": 4, "maxNodes": 2}},
            "2 is not allowed; it takes at least minNodes, 4",
        ),
        (
            "sshKey",
            {"sshKey": "ssh-ed25519 AAAA"},
            '"ssh-ed25519 AAAA" is not allowed; it takes the line of an RSA public key',
        ),
        (
            "customLocation",
            {"customLocation": "site"},
            '"site" is not allowed; it takes the ID that `az customlocation show --query id`',
        ),
    ],
)
def test_what_does_not_go_together_is_told_with_what_to_do(
    key: str, changes: dict[str, Any], says: str
) -> None:
    found = read(**{"controlPlane": None, **changes})
    assert isinstance(found, list)
    (problem,) = found
    assert problem.startswith(f"cluster.{key}: {says}")


def test_everything_that_azure_local_lacks_without_the_internet_is_told_at_once() -> None:
    network = {**CLUSTER["logicalNetwork"], "dnsServers": ["8.8.8.8"]}
    found = read(disconnected={"controlPlane": "arm.site.internal"}, logicalNetwork=network)
    assert isinstance(found, list)
    assert [each.partition(": ")[0] for each in found] == [
        "cluster.gpu",
        "cluster.entra",
        "cluster.adminKubeconfig",
        "cluster.logicalNetwork.dnsServers[0]",
    ]


def test_without_the_internet_images_that_are_there_are_in_the_registry() -> None:
    away = {"disconnected": {"controlPlane": "arm.site.internal"}, "adminKubeconfig": True}
    found = read(gpu=None, entra=None, images={"trainer": "registry.example.org/t:1"}, **away)
    assert isinstance(found, list)
    (problem,) = found
    assert problem.startswith('cluster.images.trainer: "registry.example.org/t:1" is not in the')


def test_jobs_know_the_pool_with_gpus_and_that_it_needs_nothing_installed() -> None:
    pool = azure_stack.gpus(accepted(gpu={"size": "Standard_NC16_A2", "maxNodes": 3}))
    assert pool is not None
    assert (pool.per_node, pool.min_nodes, pool.max_nodes) == (2, 1, 3)
    assert pool.labels == {"slipway.dev/pool": "gpu"}
    assert pool.taints == (Taint("sku", "gpu"),)
    assert not pool.device_plugin


def test_without_gpus_jobs_know_of_none() -> None:
    assert azure_stack.gpus(accepted(gpu=None)) is None


def test_the_nodes_are_no_ones_that_azure_is_paid_for() -> None:
    pools = azure_stack.pools(accepted())
    assert [(each.name, each.provider, each.gpus) for each in pools] == [
        ("system", "azure-local", 0),
        ("gpu", "azure-local", 1),
    ]


def answering(directory: Path, answer: str, code: int = 0) -> None:
    """Put an `az` there that notes what it is asked and gives that answer."""
    program = directory / "az"
    asked = directory / "asked"
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >> {asked}\ncat <<'END'\n{answer}\nEND\nexit {code}\n"
    )
    program.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_a_resource_group_that_is_left_is_found_with_how_to_remove_it(path: Path) -> None:
    answering(path, "true")
    subscription = CLUSTER["subscription"]
    command = f"az group delete --name slipway-site --subscription {subscription}"
    assert azure_stack.remains(accepted(), "slipway/site") == {
        "resource groups": [f"resource group slipway-site: {command}"]
    }
    asked = (path / "asked").read_text().strip()
    assert asked == (
        f"group exists --name slipway-site --subscription {subscription} --output json"
    )


def test_nothing_is_left_when_the_resource_group_is_gone(path: Path) -> None:
    answering(path, "false")
    assert azure_stack.remains(accepted(), "slipway/site") == {"resource groups": []}


def test_in_a_group_of_somebody_elses_only_what_bears_the_clusters_name_is_left(path: Path) -> None:
    listed = [
        {"id": "/a", "type": "Network", "name": "a", "tags": {"slipway-cluster": "site"}},
        {"id": "/b", "type": "Network", "name": "b", "tags": {"slipway-cluster": "other"}},
        {"id": "/c", "type": "Network", "name": "c", "tags": None},
    ]
    answering(path, json.dumps(listed))
    assert azure_stack.remains(accepted(resourceGroup="ours"), "slipway/site") == {
        "Azure resources": ["Network a: az resource delete --ids /a"]
    }


def test_without_an_answer_it_is_told_that_azure_was_not_asked(path: Path) -> None:
    ((kind, found),) = azure_stack.remains(accepted(), "slipway/site").items()
    assert kind == "resource groups known to be left (Azure was not asked: `az` is not installed)"
    assert found == []
    answering(path, "please run az login", code=1)
    ((kind, found),) = azure_stack.remains(accepted(resourceGroup="ours"), "slipway/site").items()
    assert kind.startswith("Azure resources known to be left (Azure was not asked: `")
    assert "please run az login" in kind
    assert found == []


def test_settings_are_read_without_loading_azures_sdk() -> None:
    program = (
        "import sys; from clusters import CLUSTERS; CLUSTERS['azure-stack'].settings.load(); "
        "sys.exit('pulumi_azure_native' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
