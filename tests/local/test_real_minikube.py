"""The real minikube on a podman of our own, two ranks on two nodes, and a node that was stopped.

As in `test_real_kind.py` only set-up runs in a network that leads out of the machine.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.real_cluster import (
    SMALL,
    RealCluster,
    assert_a_stopped_node_is_started,
    assert_well,
    real_cluster,
)

NOTHING = "Removed minikube completely: 0 minikube clusters, 0 processes, 0 files left."
ALONE = {**SMALL, "cpu": "1"}
"""A job of which a node has room for one rank."""
pytestmark = pytest.mark.long
"""As long as the real kind's, and minikube is built besides."""


@pytest.fixture(scope="module")
def two_nodes(root: Path) -> Iterator[RealCluster]:
    """A stack with two nodes, up, which has trained the small job."""
    with real_cluster("minikube", root, 2, **ALONE) as stack:
        yield stack


def test_ranks_on_two_nodes_train_together_again_nothing_changes_and_smoke_passes(
    two_nodes: RealCluster,
) -> None:
    result = two_nodes.result()
    assert (result["state"], result["world_size"], result["backend"]) == ("Succeeded", 2, "gloo")
    nodes = {pod["spec"]["nodeName"] for pod in two_nodes.pods().values()}
    assert nodes == {two_nodes.scratch.name, f"{two_nodes.scratch.name}-m02"}
    # Of the nodes, in place of minikube's addon.
    form = "jsonpath={.items[*].metadata.name}:{.items[*].provisioner}"
    classes = two_nodes.kubectl(f"get storageclasses --output {form}")
    assert classes == "standard:rancher.io/local-path"
    assert_well(two_nodes)


def test_a_node_that_was_stopped_is_started_again(two_nodes: RealCluster) -> None:
    node = f"{two_nodes.scratch.name}-m02"
    assert_a_stopped_node_is_started(two_nodes, node, f"{node}: Host is Stopped", 2)


def test_down_leaves_nothing(two_nodes: RealCluster) -> None:
    assert NOTHING in two_nodes.down().errors
