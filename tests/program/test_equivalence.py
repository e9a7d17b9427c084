"""The same job is the same PyTorchJob on every kind of cluster, but for what it must not be."""

import copy
import re
from collections.abc import Mapping
from typing import Any

import pytest

from clusters.kinds import CLUSTERS
from clusters.kubeconfig.choice import Choice
from clusters.kubeconfig.found import Found
from tests.program.declared import PLAIN, STACKS, declare, manifest, template

_NETWORK = re.compile(r"(NCCL|TORCH_NCCL|GLOO)_\w+")
"""Variables by which NCCL and Gloo find each other."""

MINE = {"script": PLAIN, "cpu": "100m"}
JOBS: Mapping[str, Any] = {
    "mnist-gloo": {"cpu": "100m"},
    "mnist-elastic": {"cpu": "100m"},
    "own": {
        **MINE,
        "args": ["--epochs", "1"],
        "env": {"GREETING": "hello"},
        "volumes": {"scratch": {"emptyDir": True, "mountPath": "/scratch"}},
    },
}
GPU_JOBS: Mapping[str, Any] = {
    "mnist-nccl": {"cpu": "100m"},
    "own-nccl": {**MINE, "backend": "nccl", "gpus": 1},
}
"""Jobs for clusters that have GPUs."""

Manifests = dict[str, dict[str, Any]]


def portable(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's manifest without that in which kinds of clusters may differ.

    Lists of what has a name are sorted by it.
    """
    job = copy.deepcopy(dict(manifest))
    # A namespace that is there can be named.
    del job["metadata"]["namespace"]
    templates = [each["template"] for each in job["spec"]["pytorchReplicaSpecs"].values()]
    for metadata in (job["metadata"], *(each["metadata"] for each in templates)):
        # Azure's admission gives pods of this label what it takes to be the job's identity there.
        metadata["labels"].pop("azure.workload.identity/use", None)
    for spec in [each["spec"] for each in templates]:
        # The nodes with GPUs, a private registry, and a volume or a store for what is kept, which
        # is copied before the pod ends.
        for key in ("nodeSelector", "tolerations", "imagePullSecrets"):
            spec.pop(key, None)
        spec.pop("terminationGracePeriodSeconds", None)
        spec["volumes"] = named(spec.get("volumes", []))
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            # Each cluster's images are called after where they are.
            del container["image"]
            container["volumeMounts"] = named(container.get("volumeMounts", []))
            container["env"] = named(container.get("env", []))
            for variable in container["env"]:
                if _NETWORK.fullmatch(variable["name"]):
                    del variable["value"]
            arguments = container.get("args", [])
            if "--timeout" in arguments:
                # Where nodes have to be made first, ranks wait for each other for longer.
                place = arguments.index("--timeout")
                del arguments[place : place + 2]
    return job


def named(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = {"SLIPWAY_KEPT", "slipway-kept"}
    return sorted((it for it in items if it["name"] not in kept), key=lambda it: str(it["name"]))


@pytest.fixture(scope="module")
def rendered(machine: pytest.MonkeyPatch) -> dict[str, Manifests]:
    """The manifests of the same jobs, by kind of cluster."""
    # Nothing is there to be looked at.
    choice = Choice("hub", "https://10.30.0.4:6443", "config", "a kubeconfig")
    machine.setattr("clusters.kubeconfig.cluster.choose", lambda *_: choice)
    machine.setattr("clusters.kubeconfig.cluster.look", lambda *_: Found())
    hub = {
        "kind": "kubeconfig",
        "context": "hub",
        "registry": {"server": "registry.example.internal/team"},
        "gpus": {"perNode": 2, "taints": [{"key": "gpus"}], "labels": {"gpus": "yes"}},
    }
    found = {}
    for cluster in (hub, *(template(each)["cluster"] for each in STACKS)):
        kind = cluster["kind"]
        has_gpus = kind in {"aks", "azure-stack", "kubeconfig"}
        jobs = {**JOBS, **(GPU_JOBS if has_gpus else {})}
        program = declare({"cluster": cluster, "jobs": jobs}, machine, stack=kind)
        found[kind] = {run.name: manifest(run) for run in program.of("PyTorchJob")}
    return found


@pytest.mark.parametrize("kind", sorted(CLUSTERS.keys() - {"embedded"}))
@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_equal_on_all_kinds(rendered: dict[str, Manifests], kind: str, job: str) -> None:
    """A job's manifest is the same on every kind of cluster but for an allow-list."""
    assert portable(rendered[kind][job]) == portable(rendered["embedded"][job])


@pytest.mark.parametrize("kind", ["azure-stack", "kubeconfig"])
@pytest.mark.parametrize("job", GPU_JOBS)
def test_a_gpu_job_is_equal_everywhere(rendered: dict[str, Manifests], kind: str, job: str) -> None:
    assert portable(rendered[kind][job]) == portable(rendered["aks"][job])
    here, there = (pod(rendered[each][job]) for each in ("aks", "kubeconfig"))
    assert here["nodeSelector"] != there["nodeSelector"]
    assert here["tolerations"] != there["tolerations"]


def pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    return found
