"""What a person sees of every stack who has no account and no container engine."""

import json
import re

import pytest

from tests.engine.stack import LiveStack

_NO_ENGINE = "DOCKER_HOST=unix:///nowhere KIND_EXPERIMENTAL_PROVIDER=docker"
_COST = "what the stack asks for, and what that costs by the hour:"
_DOUBLE = "Azure is not asked: this is Slipway's recording double"


@pytest.mark.parametrize(
    ("stack", "cluster", "told", "last"),
    [
        ("kind", "slipway:clusters:Kind", "needs 4 pods", "`up` will need it"),
        ("minikube", "slipway:clusters:Minikube", "needs 4 pods", ""),
        ("azure", "azure-native:containerservice:ManagedCluster", _DOUBLE, _COST),
        ("azure-stack", "azure-native:kubernetes:ConnectedCluster", _DOUBLE, _COST),
    ],
)
def test_a_preview_shows_the_whole_stack_and_makes_nothing(
    stack: str, cluster: str, told: str, last: str, live_stack: LiveStack
) -> None:
    # So no container engine answers, where there is one, too.
    shown = live_stack.run(f"{_NO_ENGINE} make preview STACK={stack}").said
    assert re.search(f" {cluster} .* create", shown), shown
    assert re.search(r"slipway:jobs:PyTorchJob mnist-\w+ create", shown), shown
    assert told in shown, shown
    summary = re.search(r"\+ \d+ to create", shown)
    assert summary is not None, shown
    assert last in shown[summary.end() :], shown
    exported = live_stack.run(f'eval "$(make -s env)" && pulumi stack export --stack {stack}')
    assert json.loads(exported.output)["deployment"].get("resources", []) == []
    live_stack.run(f"make down STACK={stack}")


def test_of_a_cluster_that_could_not_be_made_its_own_reason_is_told(live_stack: LiveStack) -> None:
    try:
        failed = live_stack.attempt(f"{_NO_ENGINE} make up STACK=kind")
        assert failed.code != 0, failed
        told = failed.said[failed.said.rindex("Diagnostics:") :]
        first, last = re.findall(r"^ +error: (.*)$", told, re.MULTILINE)
        assert {first, last} == {
            "kind's cluster kind needs this:",
            "without the cluster nothing is made in it",
        }, failed
        assert "docker" in told
    finally:
        live_stack.run("make down STACK=kind")
