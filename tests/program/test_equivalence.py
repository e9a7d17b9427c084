"""The same job is the same PyTorchJob on every kind of cluster, but for what it must not be."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kinds import CLUSTERS
from clusters.kubeconfig.found import Found
from tests.program.declared import declare, manifest
from tests.program.equivalence import strays

STACKS = Path(__file__).resolve().parents[2] / "stacks"
RUN = "slipway:jobs:PyTorchJob"
KUBECONFIG = """
{apiVersion: v1, kind: Config,
 clusters: [{name: hub, cluster: {server: "https://10.30.0.4:6443"}}],
 users: [{name: me, user: {token: a token}}],
 contexts: [{name: hub, context: {cluster: hub, user: me}}]}
"""
PLAIN = {"script": "tests/policy/scripts/plain.py", "cpu": "100m"}
JOBS: Mapping[str, Any] = {
    "mnist-gloo": {"cpu": "100m"},
    "mnist-elastic": {"cpu": "100m"},
    "own": {
        **PLAIN,
        "args": ["--epochs", "1"],
        "env": {"GREETING": "hello"},
        "volumes": {"scratch": {"emptyDir": True, "mountPath": "/scratch"}},
    },
}
GPU_JOBS: Mapping[str, Any] = {
    "mnist-nccl": {"cpu": "100m"},
    "own-nccl": {**PLAIN, "backend": "nccl", "gpus": 1},
}
"""Of clusters that have GPUs."""

Manifests = dict[str, dict[str, Any]]


def clusters(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a cluster of each kind: those of its stack, where it has one."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    found = [yaml.safe_load(path.read_text())["config"] for path in sorted(STACKS.glob("*.yaml"))]
    theirs = {each["slipway:cluster"]["kind"]: each["slipway:cluster"] for each in found}
    return {
        "kubeconfig": {
            "kind": "kubeconfig",
            "path": str(kubeconfig),
            "context": "hub",
            "registry": {"server": "registry.example.internal/team"},
            "gpus": {"perNode": 2, "taints": [{"key": "gpus"}], "labels": {"gpus": "yes"}},
        },
        **theirs,
    }


@pytest.fixture(scope="module")
def rendered(
    tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch
) -> dict[str, Manifests]:
    """Return the manifests of the same jobs, by kind of cluster."""
    directory = tmp_path_factory.mktemp("stacks")
    # Nothing is there to be looked at.
    machine.setattr("clusters.kubeconfig.cluster.look", lambda *_: Found())
    found = {}
    for kind, cluster in clusters(directory).items():
        has_gpus = kind in {"aks", "azure-stack", "kubeconfig"}
        jobs = {**JOBS, **(GPU_JOBS if has_gpus else {})}
        program = declare({"cluster": cluster, "jobs": jobs}, machine, stack=kind)
        found[kind] = {run.name: manifest(run) for run in program.of(RUN)}
    return found


def test_every_kind_of_cluster_is_compared(rendered: dict[str, Manifests]) -> None:
    assert rendered.keys() == CLUSTERS.keys()
    for kind, manifests in rendered.items():
        assert manifests.keys() >= JOBS.keys(), kind


@pytest.mark.parametrize("kind", sorted(CLUSTERS.keys() - {"embedded"}))
@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_equal_on_all_kinds(rendered: dict[str, Manifests], kind: str, job: str) -> None:
    """A job's manifest is the same on every kind of cluster but for an allow-list."""
    assert strays(rendered[kind][job], rendered["embedded"][job]) == []


@pytest.mark.parametrize("kind", ["azure-stack", "kubeconfig"])
@pytest.mark.parametrize("job", GPU_JOBS)
def test_a_gpu_job_is_equal_everywhere(rendered: dict[str, Manifests], kind: str, job: str) -> None:
    assert strays(rendered[kind][job], rendered["aks"][job]) == []


def test_what_a_cluster_is_allowed_to_change_does_change(rendered: dict[str, Manifests]) -> None:
    here, there = (pod(rendered[kind]["mnist-nccl"]) for kind in ("aks", "kubeconfig"))
    assert here["nodeSelector"] != there["nodeSelector"]
    assert here["tolerations"] != there["tolerations"]


def pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    return found


def test_a_stray_difference_is_found(rendered: dict[str, Manifests]) -> None:
    sound = rendered["embedded"]["mnist-gloo"]
    spoiled = copy.deepcopy(sound)
    pod(spoiled)["hostNetwork"] = True
    assert strays(spoiled, sound) == ["spec.pytorchReplicaSpecs.Master.template.spec.hostNetwork"]
