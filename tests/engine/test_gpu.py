"""GPUs on a real cluster: nodes that are yet to be made, capacity that is not real."""

import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.gpu_stack import LABEL, Node, on_gpus
from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack


@pytest.fixture
def node(jobs: Jobs) -> Iterator[Node]:
    made = Node(jobs, pool=f"test-{secrets.token_hex(3)}")
    yield made
    found = json.loads(jobs.kubectl("get", "node", made.name, "-o", "json"))
    assert LABEL not in found["metadata"]["labels"]


def scaled_up(jobs: Jobs, job: str) -> None:
    """Say of a job's pod what the autoscaler says when it makes a node for it."""
    (pod,) = jobs.items("pods", job)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = pod["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "scale-up-", "namespace": own["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod"}
        | {key: own[key] for key in ("name", "namespace", "uid")},
        "type": "Normal",
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up: [{aks-gpu-vmss 0->1 (max: 1)}]",
        "source": {"component": "cluster-autoscaler"},
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    jobs.kubectl("create", "-f", "-", given=json.dumps(event))


def test_a_job_waits_for_a_node_that_is_being_made_says_so_and_runs_on_it(
    job_name: str, node: Node, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """Capacity that isn't real is found out by the job."""
    stack = on_gpus(job_stack, node.pool)
    declared = python(
        trainer, SUMMARY, '{"accuracy": 0.5, "device": "cpu"}', "0", workers=0, gpus=1
    )
    with stack.going_up(**{job_name: declared}) as up:
        await_true(lambda: "didn't match Pod's node affinity/selector" in stack.log)
        assert "1 rank: 1 waiting for a node\n" in stack.log.replace("\r", "")
        scaled_up(jobs, job_name)
        await_true(lambda: "1 waiting for a node that is being added" in stack.log)
        with node.with_a_gpu():
            code = up.wait(COMMAND_SECONDS)
    assert code == 0, stack.log
    (pod,) = jobs.items("pods", job_name)
    assert pod["spec"]["nodeName"] == node.name
    assert pod["spec"]["nodeSelector"] == {LABEL: node.pool}
    assert stack.output(job_name)["device"] == "cpu"
    assert stack.output("cuda")["state"] == "unverified"
    assert "ran on the CPU" in stack.output("cuda")["reason"]
    assert f"job {job_name} requested GPUs but ran on the CPU" in stack.log
