"""The real kind on a podman of our own, two ranks on two nodes, and a node that is lost.

All of it runs in a network with no way out of the machine; only set-up, which gets the tools and
builds the images, runs in the machine's own.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.awaiting import await_true
from tests.local.real_cluster import (
    SMALL,
    RealCluster,
    assert_a_stopped_node_is_started,
    assert_well,
    real_cluster,
)

NOTHING = "Removed kind completely: 0 kind clusters, 0 processes, 0 files left."
pytestmark = pytest.mark.long
"""The tools and images that it takes are built for ten minutes where a machine has none yet."""


@pytest.fixture(scope="module")
def two_nodes(root: Path) -> Iterator[RealCluster]:
    """A stack with two worker nodes, up, which has trained the small job."""
    with real_cluster("kind", root, 2, **SMALL) as stack:
        yield stack


def test_from_nothing_to_a_job_to_another_cluster_and_back(root: Path) -> None:
    """One more node recreates the cluster and what it contains; nothing trains again.

    `make down` is judged by what is left on the machine, too.
    """
    with real_cluster("kind", root, 0, **SMALL) as stack:
        result = stack.result()
        assert result["state"] == "Succeeded"
        stack.declare(nodes=1, **SMALL)
        stack.run("make up STACK=kind")
        assert stack.result() == result
        assert len(stack.kubectl("get nodes --output name").split()) == 2
        assert " passed" in stack.run("make smoke STACK=kind").output
        down = stack.down()
    assert NOTHING in down.errors, down


def test_ranks_on_two_nodes_train_together_nothing_changes_and_smoke_passes(
    two_nodes: RealCluster,
) -> None:
    result = two_nodes.result()
    assert (result["state"], result["world_size"], result["backend"]) == ("Succeeded", 2, "gloo")
    nodes = {name: pod["spec"]["nodeName"] for name, pod in two_nodes.pods().items()}
    assert sorted(nodes) == ["mnist-gloo-master-0", "mnist-gloo-worker-0"]
    assert len(set(nodes.values())) == 2, nodes
    for rank in (0, 1):
        log = two_nodes.run(f"make -s logs STACK=kind JOB=mnist-gloo RANK={rank} FOLLOW=0").output
        events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        epochs = [each for each in events if each["event"] == "epoch"]
        assert [(each["rank"], each["accuracy"]) for each in epochs] == [(rank, result["accuracy"])]
    assert_well(two_nodes)


def test_a_node_that_was_stopped_is_started_again(two_nodes: RealCluster) -> None:
    node = f"{two_nodes.scratch.name}-worker"
    assert_a_stopped_node_is_started(two_nodes, node, f"{node} is (stopped|exited)", 3)


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_is_lost_ends_the_attempt_and_is_named(
    two_nodes: RealCluster, rank: int, retries: int
) -> None:
    """The operator may be on it, too: it has to move before the job is submitted anew."""
    # A job of its own each time, and long enough to be met in the middle.
    two_nodes.declare(nodes=2, **SMALL, epochs=100 + 2 * rank + retries, retries=retries)
    with two_nodes.going_up() as printed:
        await_true(lambda: "epoch 2/" in printed(), otherwise=printed)
        pod = two_nodes.pods()[f"mnist-gloo-{'worker' if rank else 'master'}-0"]
        node = pod["spec"]["nodeName"]
        two_nodes.podman(f"kill {node}")
    result = two_nodes.result()
    if retries == 0:
        told = result["failure"]["disruption"]
        assert result["state"] == "Failed", printed()
    else:
        (attempt,) = result["attempts"]
        told = attempt["reason"]
        assert result["state"] == "Succeeded", printed()
    assert told.startswith(f"node {node}, which pod mnist-gloo-"), printed()
    assert told in printed()
