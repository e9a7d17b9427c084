"""Where a stack keeps its jobs' files: the claim that it declares, and what each run is told."""

from collections.abc import Callable
from typing import Any

import pytest

from clusters.kubeconfig.found import Found
from tests.program.declared import Declare, Program, template, variables

VOLUME = "file:///opt/kept/outputs/mnist-gloo"
EMBEDDED = {"kind": "embedded"}


@pytest.fixture
def declaring(declared: Declare) -> Declare:
    """Run the program with a cluster's settings, those of `slipway:outputs`, and a job's."""

    def run(cluster: dict[str, Any], outputs: Any = None, job: Any = None) -> Program:
        settings = {} if outputs is None else {"outputs": outputs}
        jobs = {"mnist-gloo": {"cpu": "100m", **(job or {})}}
        return declared("mine", cluster=cluster, jobs=jobs, **settings)

    return run


@pytest.fixture
def elsewhere(declaring: Declare, there_is: Callable[[Found], None]) -> Declare:
    """Run the program on an existing cluster that has what the argument says."""

    def run(there: Found) -> Program:
        there_is(there)
        registry = {"server": "registry.example.internal/team"}
        return declaring({"kind": "kubeconfig", "context": "work", "registry": registry})

    return run


def told(program: Program) -> dict[str, Any]:
    return variables(program.one("PyTorchJob"))


def not_kept(said: list[str]) -> str:
    (text,) = [each for each in said if "are not kept" in each]
    return text


@pytest.mark.parametrize("kind", ["embedded", "kind", "minikube"])
def test_one_nodes_jobs_keep_files_on_a_volume(declaring: Declare, kind: str) -> None:
    """Files are kept on one volume where all nodes for jobs can use it."""
    program = declaring({"kind": kind})
    claim = program.one("Claim", "slipway-kept")
    assert claim.inputs["manifest"]["metadata"]["namespace"] == "slipway-jobs"
    size = {"resources": {"requests": {"storage": "10Gi"}}}
    assert claim.inputs["manifest"]["spec"] == {"accessModes": ["ReadWriteOnce"], **size}
    assert told(program)["SLIPWAY_KEPT"] == VOLUME
    assert claim.urn in program.needs(program.one("PyTorchJob"))
    assert not claim.request.retainOnDelete, "it goes with the stack"


def test_a_stack_may_keep_nothing(declaring: Declare) -> None:
    program = declaring(EMBEDDED, {"keep": False})
    assert program.of("Claim") == []
    assert "SLIPWAY_KEPT" not in told(program)


def test_files_are_kept_where_all_nodes_reach_them(declaring: Declare, said: list[str]) -> None:
    cluster = {"kind": "kind", "workers": 2}
    program = declaring(cluster)
    assert program.of("Claim") == []
    assert "SLIPWAY_KEPT" not in told(program)
    assert "2 nodes" in not_kept(said)
    assert "slipway:outputs" in not_kept(said)
    shared = {"storageClass": "nfs", "accessMode": "ReadWriteMany", "size": "50Gi"}
    program = declaring(cluster, shared)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "nfs"}
    size = {"resources": {"requests": {"storage": "50Gi"}}}
    assert program.one("Claim").inputs["manifest"]["spec"] == {**spec, **size}
    assert told(program)["SLIPWAY_KEPT"] == VOLUME


def test_on_aks_they_go_to_the_stacks_storage_account(declaring: Declare) -> None:
    program = declaring(template("azure")["cluster"])
    account = program.one("StorageAccount").inputs["accountName"]
    place = f"abfs://artifacts@{account}.dfs.core.windows.net/slipway/outputs/mnist-gloo"
    assert told(program)["SLIPWAY_KEPT"] == place
    assert program.of("Claim") == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Found(), "is not allowed to list StorageClasses"),
        (Found(default_class=False, nodes=1), "no default StorageClass"),
        (Found(default_class=True), "can't list the nodes"),
        (Found(default_class=True, nodes=3), "3 nodes"),
        (Found(default_class=True, nodes=2, claim_of="others/x"), "2 nodes"),
    ],
)
def test_an_existing_cluster_without_a_volume_for_it_says_so(
    elsewhere: Declare, said: list[str], found: Found, reason: str
) -> None:
    assert elsewhere(found).of("Claim") == []
    assert reason in not_kept(said)


def test_a_preview_says_down_deletes_the_claim(elsewhere: Declare, said: list[str]) -> None:
    """A claim with files on it stays when the cluster grows."""
    for found in ({"nodes": 1}, {"nodes": 2, "claim_of": "slipway/mine"}):
        program = elsewhere(Found(default_class=True, **found))
        assert program.names("Claim") == ["slipway-kept"]
        assert any("`make down` deletes" in each for each in said)


def test_checkpoints_need_the_volume(declaring: Declare, said: list[str]) -> None:
    checkpoint = {"every": "10 min"}
    here = told(declaring(EMBEDDED, job={"checkpoint": checkpoint}))
    assert here["SLIPWAY_CHECKPOINT_DIR"].startswith("/opt/kept/checkpoints/mnist-gloo/")
    stored = {"checkpoint": {**checkpoint, "url": "s3://bucket/mine"}}
    away = told(declaring(EMBEDDED, {"keep": False}, stored))
    own = "s3://bucket/mine/checkpoints/slipway/mine/mnist-gloo/"
    assert away["SLIPWAY_CHECKPOINT_URL"].startswith(own)
    ignored = "job mnist-gloo: `checkpoint` is ignored"
    assert not any(ignored in each for each in said)
    nowhere = told(declaring(EMBEDDED, {"keep": False}, {"checkpoint": checkpoint}))
    assert "SLIPWAY_CHECKPOINT_DIR" not in nowhere
    assert any(ignored in each for each in said)
