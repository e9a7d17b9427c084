"""Jobs on a cluster that is there and is said to have nodes with GPUs; what the CLI runs."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pulumi

from clusters.nodes import GpuPool
from images.resource import TrainerImages
from infra.gpus.component import cuda_output, provide_gpus
from infra.runs import train
from jobs.config import read
from jobs.rules.rule import Surroundings
from tests.engine import pytorchjob_program
from tests.engine.awaiting import await_true
from tests.engine.pytorchjob_stack import Jobs, JobStack

LABEL = "example.org/pool"
_GPU = "nvidia.com/gpu"


def program(pool: str) -> None:
    """Declare what the real program declares of GPUs, and the jobs that the environment names."""
    context = pytorchjob_program._context()
    trainer = os.environ["TEST_TRAINER"]
    labels = {LABEL: pool}
    gpus = GpuPool(per_node=1, min_nodes=0, max_nodes=1, labels=labels, device_plugin=False)
    cluster = replace(context.cluster, gpus=gpus)
    # The image with CUDA takes several GB, and there is no GPU for it here.
    images = TrainerImages({"kind": "there", "trainer": trainer, "trainerCuda": trainer})
    wanted = read(json.loads(os.environ["TEST_JOBS"]), "jobs", Surroundings(1, None, gpus))
    assert wanted.problems == [], wanted.problems
    ready = provide_gpus(cluster, gpus, after=[])
    context = replace(context, cluster=cluster, images=images, gpus=ready)
    runs = train(wanted.jobs, wanted.scripts, context)
    for name, run in runs.items():
        pulumi.export(name, run.result)
    pulumi.export("cuda", cuda_output(ready.cuda, runs))


@dataclass(frozen=True)
class Node:
    """The cluster's only node, which can be made to look like one with a GPU."""

    jobs: Jobs
    pool: str  # what its label says then, which no other test's does

    @property
    def name(self) -> str:
        return self.jobs.kubectl("get", "nodes", "-o", "name").strip().removeprefix("node/")

    @contextmanager
    def with_a_gpu(self) -> Iterator[None]:
        """Advertise a GPU, as Kubernetes lets anybody do who may change a node's status.

        https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
        """
        name = self.name
        capacity = json.dumps({"status": {"capacity": {_GPU: "1"}}})
        self.jobs.kubectl(
            "patch", "node", name, "--subresource=status", "--type=merge", "-p", capacity
        )
        try:
            await_true(lambda: self._offered == "1")
            self.jobs.kubectl("label", "node", name, f"{LABEL}={self.pool}", "--overwrite")
            yield
        finally:
            self.jobs.kubectl("label", "node", name, f"{LABEL}-")
            path = _GPU.replace("/", "~1")
            removed = json.dumps(
                [{"op": "remove", "path": f"/status/{kind}/{path}"}
                 for kind in ("capacity", "allocatable")]
            )  # fmt: skip
            of_json = ("--subresource=status", "--type=json", "-p", removed)
            self.jobs.kubectl("patch", "node", name, *of_json)

    @property
    def _offered(self) -> str | None:
        node = json.loads(self.jobs.kubectl("get", "node", self.name, "-o", "json"))
        offered: str | None = node["status"]["allocatable"].get(_GPU)
        return offered


def on_gpus(stack: JobStack, pool: str) -> JobStack:
    """Return `stack` with `program` as its program."""
    text = f"from tests.engine.gpu_stack import program\n\nprogram({pool!r})\n"
    (stack.directory / "__main__.py").write_text(text)
    return stack
