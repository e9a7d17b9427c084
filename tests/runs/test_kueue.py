"""Jobs that wait in a queue, with Kueue's own controller and webhooks.

Kueue is built from its Go module, which kueue/go.mod pins, and installed as its release has it but
for PyTorchJobs alone.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.cluster import JOBS
from tests import go_programs
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.embedded_cluster import TestCluster
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

pytestmark = pytest.mark.long

_SOURCE = Path(__file__).parent / "kueue"
_MODULE = "sigs.k8s.io/kueue"
_API = "kueue.x-k8s.io/v1beta2"
_IMAGE = f"slipway.local/kueue:{go_programs.version(_SOURCE, _MODULE)}"
_WORKLOADS = "workloads.kueue.x-k8s.io"
_QUEUE = "research"
_BEFORE_SECONDS = 75
_LIMIT_SECONDS = 60
"""Less than the job before takes: who counted the wait would end the run that waits."""


@pytest.fixture(scope="module")
def kueue(own_cluster: TestCluster, jobs: Jobs) -> Iterator[TestCluster]:
    """Kueue, and the queue `research` with room for one job of two small replicas."""
    program = go_programs.built("kueue", _SOURCE, _MODULE, f"{_MODULE}/cmd/kueue")
    own_cluster.add_image(_IMAGE, program, "/manager")
    objects = _release(own_cluster, go_programs.content(_SOURCE, _MODULE))
    try:
        # An annotation could not hold the whole of the definition of a Workload.
        own_cluster.kubectl("apply", "--server-side", "--filename=-", manifests=objects)
        own_cluster.kubectl(
            "wait", "--namespace=kueue-system", "--for=condition=Available",
            f"--timeout={COMMAND_SECONDS - 60}s", "deployment/kueue-controller-manager",
        )  # fmt: skip
        own_cluster.kubectl("apply", "--filename=-", manifests=_queues())
        yield own_cluster
        # While Kueue runs, since it holds each of them by a finalizer.
        jobs.kubectl("delete", _WORKLOADS, "--all")
        own_cluster.kubectl("delete", "--filename=-", manifests=_queues())
    finally:
        own_cluster.kubectl(
            "delete", "--ignore-not-found", "--filename=-", manifests=[*reversed(objects)]
        )


def _release(cluster: TestCluster, module: Path) -> list[dict[str, Any]]:
    """Return the objects of Kueue's release, with our image and for PyTorchJobs alone."""
    objects = [*yaml.safe_load_all(cluster.kubectl("kustomize", str(module / "config/default")))]
    for each in objects:
        if each["kind"] == "Deployment":
            [container] = each["spec"]["template"]["spec"]["containers"]
            container |= {"image": _IMAGE, "imagePullPolicy": "Never"}
        if each["kind"] == "ConfigMap":
            [(file, text)] = each["data"].items()
            settings = yaml.safe_load(text)
            settings["integrations"]["frameworks"] = ["kubeflow.org/pytorchjob"]
            each["data"] = {file: yaml.safe_dump(settings)}
    return objects


def _queues() -> list[dict[str, Any]]:
    quotas = {"cpu": "300m", "memory": "1Gi"}
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    flavors = [{"name": "default", "resources": resources}]
    group = {"coveredResources": [*quotas], "flavors": flavors}
    return [
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "default"}},
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": "everybody"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": _QUEUE, "namespace": JOBS},
            "spec": {"clusterQueue": "everybody"},
        },
    ]


@pytest.mark.usefixtures("kueue")
def test_a_job_waits_in_its_queue_until_the_one_before_it_has_ended(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """Its row has Kueue's reason, no limit counts the wait, and what Kueue changes is no drift."""
    first, second = job_name, f"{job_name}-next"
    limits = {"timeout": _LIMIT_SECONDS, "startTimeout": _LIMIT_SECONDS}
    waits = python(trainer, SLEEPING, "1", queue=_QUEUE, **limits)
    before = python(trainer, SLEEPING, str(_BEFORE_SECONDS), queue=_QUEUE)
    with runs.training(first, **before) as going:
        jobs.await_all_running(first, 2)
        began = time.monotonic()
        with runs.training(second, **waits) as waiting:
            await_true(lambda: f"suspended, in the Kueue queue {_QUEUE}: " in waiting.text)
            assert "insufficient unused quota for cpu" in waiting.text
            assert jobs.items("pods", second) == []
            assert going.end().error is None, going.text
            assert time.monotonic() - began > _LIMIT_SECONDS
            assert waiting.end().error is None, waiting.text
    for name in (first, second):
        result = runs.output(name)
        assert (result["state"], result["exit_codes"]) == ("Succeeded", {"0": 0, "1": 0})
    assert runs.output(second)["duration_seconds"] < _LIMIT_SECONDS
    assert runs.train(second, **waits).steps == {}


@pytest.mark.usefixtures("kueue")
def test_a_run_that_kueue_stops_goes_on_after_it(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """That its pods end is no failure."""

    def activate(value: bool) -> None:
        patch = json.dumps({"spec": {"active": value}})
        jobs.kubectl("patch", workload, "--type=merge", f"--patch={patch}")

    with runs.training(job_name, **python(trainer, SLEEPING, "8", queue=_QUEUE)) as going:
        await_true(lambda: "2 running" in going.text)
        [uid] = jobs.uids(job_name)
        label = f"--selector=kueue.x-k8s.io/job-uid={uid}"
        workload = jobs.kubectl("get", _WORKLOADS, label, "--output=name").strip()
        activate(False)
        reason = f"in the Kueue queue {_QUEUE}: The workload is deactivated"
        await_true(lambda: f"2 ranks: suspended, {reason}" in going.text)
        await_true(lambda: jobs.items("pods", job_name) == [])
        activate(True)
        assert going.end().error is None, going.text
    assert runs.output(job_name)["state"] == "Succeeded"
    assert jobs.uids(job_name) == [uid], "it was not submitted again"
