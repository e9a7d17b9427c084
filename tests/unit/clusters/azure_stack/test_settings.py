"""The settings of a cluster on Azure Local: what goes together, and what they come to."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from pydantic.alias_generators import to_camel

from clusters.azure_stack.settings import AzureStackSettings, gpus, pools
from clusters.nodes import Taint
from core.validation import check
from infra import settings

ROOT = Path(__file__).resolve().parents[4]
TEMPLATE = yaml.safe_load((ROOT / "stacks/azure-stack.yaml").read_text())["config"]
CLUSTER: dict[str, Any] = TEMPLATE["slipway:cluster"]
del CLUSTER["kind"]
DOCUMENT = (ROOT / "docs/azure-local.md").read_text()


def accepted(**changes: Any) -> AzureStackSettings:
    found = check(AzureStackSettings, {"name": "site", **CLUSTER, **changes}, "cluster")
    assert isinstance(found, AzureStackSettings), found
    return found


def test_every_example_in_the_documentation_is_accepted() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    examples = [*map(yaml.safe_load, blocks)]
    assert len(examples) == 2
    for example in examples:
        told = {key: json.dumps(value) for key, value in example["config"].items()}
        assert settings.parse(told, "site").jobs


def test_every_key_is_documented() -> None:
    table = "".join(re.findall(r"^\| `[^|]*\|", DOCUMENT, re.MULTILINE))
    known = {to_camel(each.name) for each in fields(AzureStackSettings)} - {"name"}
    assert set(re.findall(r"`(\w+)`", table)) == known


def test_settings_that_need_the_internet_are_refused_together_when_disconnected() -> None:
    network = {**CLUSTER["logicalNetwork"], "dnsServers": ["8.8.8.8"]}
    changed = {"logicalNetwork": network, "disconnected": {"controlPlane": "arm.site.internal"}}
    found = check(AzureStackSettings, {"name": "site", **CLUSTER, **changed}, "cluster")
    assert isinstance(found, list)
    keys = ("gpu", "entra", "adminKubeconfig", "logicalNetwork.dnsServers[0]")
    assert [each.key for each in found] == [f"cluster.{key}" for key in keys]


def test_jobs_know_the_pool_with_gpus_and_that_it_needs_nothing_installed() -> None:
    pool = gpus(accepted(gpu={"size": "Standard_NC16_A2", "maxNodes": 3}))
    assert pool is not None
    assert (pool.per_node, pool.min_nodes, pool.max_nodes) == (2, 1, 3)
    assert pool.labels == {"slipway.dev/pool": "gpu"}
    assert pool.taints == (Taint("sku", "gpu"),)
    assert not pool.device_plugin


def test_the_nodes_are_no_ones_that_azure_is_paid_for() -> None:
    found = pools(accepted())
    assert [(each.name, each.provider, each.gpus) for each in found] == [
        ("system", "azure-local", 0),
        ("gpu", "azure-local", 1),
    ]
