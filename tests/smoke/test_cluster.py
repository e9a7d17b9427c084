"""The cluster and what Slipway has put into it."""

from typing import Any

import pytest

from tests.smoke.kubectl import Kubectl
from tests.smoke.objects import holds, is_non_root, is_over


@pytest.mark.own_operator
def test_every_node_is_ready(kubectl: Kubectl) -> None:
    nodes = kubectl.items("nodes")
    assert nodes, "the cluster has no node"
    assert [node["metadata"]["name"] for node in nodes if not holds(node, "Ready")] == []


@pytest.mark.own_operator
def test_the_training_operator_is_available_as_it_was_last_declared(kubectl: Kubectl) -> None:
    deployment = kubectl.item("deployment", "training-operator", "--namespace", "kubeflow")
    status: dict[str, Any] = deployment["status"]
    assert holds(deployment, "Available"), status
    assert status["observedGeneration"] == deployment["metadata"]["generation"]
    assert status.get("readyReplicas") == deployment["spec"]["replicas"], status


def test_pytorchjobs_are_served(kubectl: Kubectl) -> None:
    definition = kubectl.item("customresourcedefinition", "pytorchjobs.kubeflow.org")
    assert holds(definition, "Established"), definition["status"]


def test_no_event_warns_of_what_is_there(kubectl: Kubectl, namespace: str) -> None:
    """Events outlive what they tell of: a job that failed and was removed is no fault today."""
    warnings = kubectl.items("events", "--namespace", namespace, "--field-selector", "type=Warning")
    about = [(event, kubectl.find(event["involvedObject"])) for event in warnings]
    assert [
        f"{it['kind']}/{it.get('name')}: {event['reason']}: {event['message']}"
        for event, found in about
        for it in [event["involvedObject"]]
        if found is not None and not is_over(event, found)
    ] == []


def test_every_pod_is_non_root(kubectl: Kubectl, namespace: str) -> None:
    if not (pods := kubectl.items("pods", "--namespace", namespace)):
        pytest.skip(f"no pod in {namespace}")
    assert [pod["metadata"]["name"] for pod in pods if not is_non_root(pod)] == []
