"""Each rule of the policy finds the mistake in its bad fixture, and none in its good one.

A fixture in tests/policy is a job as it stands under `slipway:jobs`, the cluster that it is for,
and of a bad one where its mistake is and words of what is said of it.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.image_registry import Registry
from clusters.nodes import Capacity, GpuPool, NodePool
from core.fields import size
from images.build.releases import Card
from jobs.config import RULES, JobsConfig, read
from jobs.rules.rule import Surroundings

FIXTURES = Path(__file__).resolve().parents[3] / "policy"
KEY = "slipway:jobs"


def site(cluster: dict[str, Any]) -> Surroundings:
    """Return what is known of a cluster; one that a fixture leaves out has room for all."""
    if "pool" in cluster:
        said = cluster["pool"]
        cards = tuple(Card(**each) for each in said.get("cards", ()))
        pool = GpuPool(said["perNode"], max_nodes=said["maxNodes"], cards=cards)
        return Surroundings(pool.per_node, None, pool)
    if "pools" in cluster:
        return Surroundings(pools=tuple(map(node_pool, cluster["pools"])))
    if "reach" in cluster:
        return Surroundings(reach=Registry(**cluster["reach"]))
    cpu, memory = Decimal(str(cluster.get("cpu", 64))), size(cluster.get("memory", "512Gi"))
    gpus, nodes = int(cluster.get("gpus", 0)), int(cluster.get("nodes", 1))
    return Surroundings(gpus, Capacity(cpu, memory, gpus, nodes))


def node_pool(said: dict[str, Any]) -> NodePool:
    known: dict[str, Any] = {"region": "westeurope", "min_nodes": 1, "max_nodes": 1, **said}
    return NodePool(**{"provider": "azure", **known, "cores": Decimal(str(said["cores"]))})


def judged(path: Path) -> tuple[dict[str, Any], JobsConfig]:
    fixture: dict[str, Any] = yaml.safe_load(path.read_text())
    return fixture, read(fixture["job"], KEY, site(fixture.get("cluster", {})))


def test_every_rule_has_a_bad_and_a_good_fixture_and_none_is_left_over() -> None:
    wanted = {f"{rule.name}.{kind}.yaml" for rule in RULES for kind in ("bad", "good")}
    assert {path.name for path in FIXTURES.glob("*.yaml")} == wanted


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_a_rule_finds_its_mistake_says_why_and_lets_a_good_job_pass(rule: Any) -> None:
    fixture, found = judged(FIXTURES / f"{rule.name}.bad.yaml")
    (problem,) = found.problems
    (name,) = fixture["job"]
    assert problem.key == ".".join(filter(None, (KEY, name, fixture["at"])))
    assert fixture["says"] in problem.text
    assert problem.text.endswith(f"; see {rule.pointer}")
    fixture, found = judged(FIXTURES / f"{rule.name}.good.yaml")
    assert found.problems == []
    assert [job.name for job in found.jobs] == list(fixture["job"])


def test_gpus_on_a_cluster_without_any_are_refused_with_what_gives_it_some() -> None:
    section = {"mine": {"script": "tests/policy/scripts/plain.py", "gpus": 2}}
    (problem,) = read(section, KEY, site({})).problems
    assert problem.key == f"{KEY}.mine.gpus"
    assert "this cluster has no nodes with GPUs; remove it, or add" in problem.text


def test_outputs_are_kept_only_where_their_path_really_leads() -> None:
    def keys(path: str) -> list[str]:
        volumes = {"results": {"size": "1Gi", "mountPath": "/results"}}
        section = {"cifar-gloo": {"outputs": f"file://{path}", "volumes": volumes}}
        return [each.key for each in read(section, KEY, site({})).problems]

    for path in ("/results/../tmp", "/results/a/../../resultsb", "//tmp"):
        assert keys(path) == [f"{KEY}.cifar-gloo.outputs"]
    assert keys("/results/../results/cifar") == []
