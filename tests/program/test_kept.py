"""Where a stack keeps its jobs' files: the claim that it declares, and what each run is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.kubeconfig.found import Found
from tests.program.declared import Declare, Program, variables

JOB, CLAIM = "slipway:jobs:PyTorchJob", "slipway:jobs:Claim"
VOLUME = "file:///opt/kept/outputs/mnist-gloo"

Declaring = Callable[..., Program]


@pytest.fixture
def declaring(declared: Declare) -> Declaring:
    """Run the program with a cluster's settings, those of `slipway:outputs`, and a job's."""

    def run(cluster: dict[str, Any], outputs: Any = None, job: Any = None) -> Program:
        settings = {} if outputs is None else {"outputs": outputs}
        jobs = {"mnist-gloo": {"cpu": "100m", **(job or {})}}
        return declared("mine", cluster=cluster, jobs=jobs, **settings)

    return run


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program logs for the user."""
    texts: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: texts.append(text))
    return texts


@pytest.fixture
def elsewhere(declaring: Declaring, there_is: Callable[[Found], None]) -> Declaring:
    """Run the program on an existing cluster that has what the argument says."""

    def run(there: Found) -> Program:
        there_is(there)
        registry = {"server": "registry.example.internal/team"}
        return declaring({"kind": "kubeconfig", "context": "work", "registry": registry})

    return run


@pytest.mark.parametrize("kind", [{"kind": "embedded"}, {"kind": "kind"}, {"kind": "minikube"}])
def test_one_nodes_jobs_keep_files_on_a_volume(declaring: Declaring, kind: dict[str, Any]) -> None:
    """Files are kept on one volume where all nodes for jobs can use it."""
    program = declaring(kind)
    claim, job = program.one(CLAIM), program.one(JOB)
    assert claim.name == "slipway-kept"
    assert claim.inputs["manifest"]["metadata"]["namespace"] == "slipway-jobs"
    size = {"resources": {"requests": {"storage": "10Gi"}}}
    assert claim.inputs["manifest"]["spec"] == {"accessModes": ["ReadWriteOnce"], **size}
    assert variables(job)["SLIPWAY_KEPT"] == VOLUME
    assert claim.urn in program.needs(job)
    assert not claim.request.retainOnDelete, "it goes with the stack"


def test_a_jobs_own_outputs_win(declaring: Declaring) -> None:
    told = variables(declaring({"kind": "embedded"}, job={"outputs": "abfs://c/f"}).one(JOB))
    assert "SLIPWAY_KEPT" not in told
    assert told["SLIPWAY_OUTPUTS"] == "abfs://c/f"


def test_a_stack_may_keep_nothing(declaring: Declaring) -> None:
    program = declaring({"kind": "embedded"}, {"keep": False})
    assert program.of(CLAIM) == []
    assert "SLIPWAY_KEPT" not in variables(program.one(JOB))


def test_files_are_kept_where_all_nodes_reach_them(declaring: Declaring, said: list[str]) -> None:
    cluster = {"kind": "kind", "workers": 2}
    program = declaring(cluster)
    assert program.of(CLAIM) == []
    assert "SLIPWAY_KEPT" not in variables(program.one(JOB))
    (text,) = [each for each in said if "are not kept" in each]
    assert "2 nodes" in text
    assert "slipway:outputs" in text
    shared = {"storageClass": "nfs", "accessMode": "ReadWriteMany", "size": "50Gi"}
    program = declaring(cluster, shared)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "nfs"}
    size = {"resources": {"requests": {"storage": "50Gi"}}}
    assert program.one(CLAIM).inputs["manifest"]["spec"] == {**spec, **size}
    assert variables(program.one(JOB))["SLIPWAY_KEPT"] == VOLUME


@pytest.mark.usefixtures("machine")
def test_on_aks_they_go_to_the_stacks_storage_account(declaring: Declaring) -> None:
    cluster = yaml.safe_load((Path(__file__).parents[2] / "stacks/azure.yaml").read_text())
    program = declaring(cluster["config"]["slipway:cluster"])
    account = program.one("azure-native:storage:StorageAccount").inputs["accountName"]
    place = f"abfs://artifacts@{account}.dfs.core.windows.net/slipway/outputs/mnist-gloo"
    assert variables(program.one(JOB))["SLIPWAY_KEPT"] == place
    assert program.of(CLAIM) == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Found(), "is not allowed to list StorageClasses"),
        (Found(default_class=False, nodes=1), "no default StorageClass"),
        (Found(default_class=True), "can't list the nodes"),
        (Found(default_class=True, nodes=3), "3 nodes"),
    ],
)
def test_an_existing_cluster_without_a_volume_for_it_says_so(
    elsewhere: Declaring, said: list[str], found: Found, reason: str
) -> None:
    assert elsewhere(found).of(CLAIM) == []
    (text,) = [each for each in said if "are not kept" in each]
    assert reason in text


def test_a_preview_says_down_deletes_the_claim(elsewhere: Declaring, said: list[str]) -> None:
    assert elsewhere(Found(default_class=True, nodes=1)).one(CLAIM).name == "slipway-kept"
    assert any("`make down` deletes" in each for each in said)


def test_a_claim_with_files_on_it_stays_when_the_cluster_grows(elsewhere: Declaring) -> None:
    grown = Found(default_class=True, nodes=2, claim_of="slipway/mine")
    assert elsewhere(grown).one(CLAIM).name == "slipway-kept"
    assert elsewhere(Found(default_class=True, nodes=2, claim_of="others/x")).of(CLAIM) == []


def test_checkpoints_need_the_volume(declaring: Declaring, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: warned.append(text))
    job = {"checkpoint": {"every": "10 min"}}
    told = variables(declaring({"kind": "embedded"}, job=job).one(JOB))
    assert told["SLIPWAY_CHECKPOINT_DIR"].startswith("/opt/kept/checkpoints/mnist-gloo/")
    assert told["SLIPWAY_CHECKPOINT_EVERY"] == "600 s"
    assert warned == []
    job["checkpoint"]["url"] = "s3://bucket/mine"
    told = variables(declaring({"kind": "embedded"}, {"keep": False}, job).one(JOB))
    own = "s3://bucket/mine/checkpoints/slipway/mine/mnist-gloo/"
    assert told["SLIPWAY_CHECKPOINT_URL"].startswith(own)
    assert warned == []
    del job["checkpoint"]["url"]
    told = variables(declaring({"kind": "embedded"}, {"keep": False}, job).one(JOB))
    assert "SLIPWAY_CHECKPOINT_DIR" not in told
    assert "job mnist-gloo: `checkpoint` is ignored" in warned[0]
