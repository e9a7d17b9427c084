"""What a stack's nodes cost is said in its preview, before anything is declared."""

import json
from pathlib import Path

import pulumi
import pytest
import yaml

from clusters.cluster import Kind
from clusters.kinds import CLUSTERS
from clusters.nodes import NodePool
from infra.settings import SettingsError, parse
from tests.program.declared import declare

STACKS = sorted((Path(__file__).resolve().parents[2] / "stacks").glob("*.yaml"))
FIRST = "what the stack requests, and what it costs per hour:"


class FarEnough(pulumi.RunError):
    """The program is about to declare its cluster."""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Preview until a cluster is about to be declared, and take down what the program says."""
    texts: list[str] = []

    def provision(*_: object) -> None:
        raise FarEnough

    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("pulumi.log.info", lambda text, *_, **__: texts.append(text))
    monkeypatch.setattr(Kind, "provision", provision)
    return texts


def pools(template: Path) -> list[NodePool]:
    config = yaml.safe_load(template.read_text())["config"]
    told = {key: json.dumps(value) for key, value in config.items()}
    cluster = parse(told, template.stem).cluster
    return list(CLUSTERS[cluster.kind].pools(cluster.options))


def previewed(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FarEnough):
        declare(template, monkeypatch)


@pytest.mark.parametrize("template", STACKS, ids=lambda template: str(template.stem))
def test_a_preview_shows_costs_only_for_paid_pools(
    template: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preview says what a stack asks for and what it costs."""
    previewed(template, monkeypatch)
    wanted = pools(template)
    costs = [text for text in said if text.startswith(FIRST)]
    assert len(costs) == (1 if wanted else 0)
    for pool in wanted:
        (line,) = (line for line in costs[0].splitlines() if line.startswith(f"  {pool.name}: "))
        assert pool.size in line
        assert "USD " in line or "no price" in line
        assert ("GPU" in line) == (pool.gpus > 0)


def test_azures_stack_has_all_prices(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (template,) = (each for each in STACKS if each.stem == "azure")
    previewed(template, monkeypatch)
    assert "no price for these" not in said[0]
    assert "total: USD " in said[0]
    assert "https://" in said[0]


def test_a_preview_refuses_a_job_that_may_cost_more_than_its_max_cost(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`maxCost` fails a preview before anything is declared."""
    document = yaml.safe_load((STACKS[0].parent / "azure.yaml").read_text())
    document["config"]["slipway:jobs"] = {"mnist-nccl": {"timeout": 3600, "maxCost": 1}}
    own = tmp_path / "azure.yaml"
    own.write_text(yaml.safe_dump(document))
    with pytest.raises(SettingsError, match=r"slipway:jobs\.mnist-nccl\.maxCost: 1 is less than"):
        declare(own, monkeypatch)
    assert said == []
    document["config"]["slipway:jobs"]["mnist-nccl"]["maxCost"] = 10
    own.write_text(yaml.safe_dump(document))
    previewed(own, monkeypatch)


def test_configured_prices_replace_the_default(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (template,) = (each for each in STACKS if each.stem == "azure")
    offer = {"publisher": "our contract", "url": "https://example.org", "date": "2026-01-31"}
    hourly = {pool.size: 10 for pool in pools(template)}
    tariff = {"source": "offer", "provider": "azure", "region": "westeurope", "hourly": hourly}
    table = {"currency": "EUR", "sources": {"offer": offer}, "prices": [tariff]}
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump(table))
    document = yaml.safe_load(template.read_text())
    document["config"]["slipway:prices"] = str(file)
    own = tmp_path / "azure.yaml"
    own.write_text(yaml.safe_dump(document))
    previewed(own, monkeypatch)
    assert "EUR 10.000 " in said[0]
    assert "our contract: https://example.org" in said[0]
    assert "USD" not in said[0]
