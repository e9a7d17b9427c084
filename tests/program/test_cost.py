"""A stack's preview says what its nodes cost, before anything is declared."""

import json
from pathlib import Path

import pulumi
import pytest
import yaml

from clusters.cluster import Kind
from clusters.kinds import CLUSTERS
from clusters.nodes import NodePool
from infra.settings import SettingsError, parse
from tests.program.declared import STACKS, Declare, declare, template


class FarEnough(pulumi.RunError):
    """The program is about to declare its cluster."""


@pytest.fixture(autouse=True)
def _preview(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preview until a cluster is about to be declared."""

    def provision(*_: object) -> None:
        raise FarEnough

    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(Kind, "provision", provision)


def pools(stack: str) -> list[NodePool]:
    cluster = parse({"slipway:cluster": json.dumps(template(stack)["cluster"])}, stack).cluster
    return list(CLUSTERS[cluster.kind].pools(cluster.options))


@pytest.mark.parametrize("stack", STACKS)
def test_a_preview_shows_costs_only_for_paid_pools(
    stack: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FarEnough):
        declare(template(stack), monkeypatch, stack=stack)
    wanted = pools(stack)
    first = "what the stack requests, and what it costs per hour:"
    costs = [text for text in said if text.startswith(first)]
    assert len(costs) == (1 if wanted else 0)
    for pool in wanted:
        (line,) = (line for line in costs[0].splitlines() if line.startswith(f"  {pool.name}: "))
        assert pool.size in line
        assert "USD " in line or "no price" in line
        assert ("GPU" in line) == (pool.gpus > 0)


def test_a_preview_refuses_a_job_that_may_cost_more_than_its_max_cost(
    said: list[str], changed: Declare
) -> None:
    """`maxCost` fails a preview before anything is declared."""
    job = {"timeout": 3600, "maxCost": 1}
    with pytest.raises(SettingsError, match=r"slipway:jobs\.mnist-nccl\.maxCost: 1 is less than"):
        changed("azure", {"mnist-nccl": job})
    assert said == []
    with pytest.raises(FarEnough):
        changed("azure", {"mnist-nccl": {**job, "maxCost": 10}})


def test_configured_prices_replace_the_default(
    tmp_path: Path, said: list[str], declared: Declare
) -> None:
    offer = {"publisher": "our contract", "url": "https://example.org", "date": "2026-01-31"}
    hourly = {pool.size: 10 for pool in pools("azure")}
    tariff = {"source": "offer", "provider": "azure", "region": "westeurope", "hourly": hourly}
    table = {"currency": "EUR", "sources": {"offer": offer}, "prices": [tariff]}
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump(table))
    with pytest.raises(FarEnough):
        declared("azure", cluster=template("azure")["cluster"], jobs={}, prices=str(file))
    assert "EUR 10.000 " in said[0]
    assert "our contract: https://example.org" in said[0]
    assert "USD" not in said[0]
