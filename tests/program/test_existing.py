"""What a stack declares in a cluster that somebody else has made."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.kubeconfig.found import Deployed, Found
from tests.program.declared import Declare, Program, annotations, secret, templates

IMAGES = {name: f"example.org/{name}:1" for name in ("trainer", "trainingOperator", "tcpWait")}
OPERATOR = Deployed("kubeflow", "training-operator", "example.org/training-operator:v1.9.2")
THEIRS = Found(serves=True, deployed=(OPERATOR,), judged=True, namespaces={"team-a": None})
BARE = Found(deployed=())


@pytest.fixture
def declaring(declared: Declare, there_is: Callable[[Found], None]) -> Declare:
    """Run the program on a cluster where the first argument is what there is."""

    def run(there: Found, **settings: Any) -> Program:
        there_is(there)
        cluster = {"kind": "kubeconfig", "context": "work", "images": IMAGES, **settings}
        return declared("mine", cluster=cluster, jobs={"mnist-gloo": {}})

    return run


def test_with_an_operator_and_a_namespace_almost_nothing_is_made(declaring: Declare) -> None:
    program = declaring(THEIRS, namespace="team-a")
    kinds = sorted(each.type.rpartition(":")[2] for each in program.starting("kubernetes:"))
    assert kinds == ["NetworkPolicy", "ServiceAccount"]
    for each in program.resources:
        assert each.inputs.get("metadata", {}).get("namespace", "team-a") == "team-a"
    account = program.one("ServiceAccount").inputs
    assert "imagePullSecrets" not in account, "the registry asks for no login"
    job, ready = program.one("PyTorchJob"), program.one("OperatorReady")
    assert job.inputs["namespace"] == "team-a"
    assert ready.urn in program.needs(job)
    place = {"namespace": "kubeflow", "deployment": "training-operator"}
    assert ready.inputs["existing"] == {"version": "1.9.2", **place, "judges": True}
    assert (ready.inputs["shared"], ready.inputs["jobNamespace"]) == (True, "team-a")
    assert "deployment" not in ready.inputs


def test_in_an_existing_namespace_the_network_policy_selects_only_slipways_pods(
    declaring: Declare,
) -> None:
    program = declaring(THEIRS, namespace="team-a")
    policy = program.one("NetworkPolicy").inputs["spec"]
    own = {"matchLabels": {"app.kubernetes.io/managed-by": "slipway"}}
    assert policy["podSelector"] == own
    assert policy["ingress"] == [{"from": [{"podSelector": own}]}]
    dns, *rules = policy["egress"]
    # On GKE a metadata service's address may be that of the DNS server, but for port 53 alone.
    assert dns == {"ports": [{"protocol": each, "port": 53} for each in ("UDP", "TCP")]}
    [in_the_cluster, elsewhere] = [rule["to"] for rule in rules]
    assert in_the_cluster == [{"namespaceSelector": {}}]
    assert [each["ipBlock"] for each in elsewhere] == [
        # Clouds' metadata.
        {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32", "168.63.129.16/32"]},
        {"cidr": "::/0", "except": ["fd00:ec2::254/128", "fd20:ce::254/128"]},
    ]
    for template in templates(program.one("PyTorchJob")):
        assert own["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_an_existing_operators_namespace_admits_the_init_container(declaring: Declare) -> None:
    program = declaring(THEIRS)
    labels = program.one("Namespace").inputs["metadata"]["labels"]
    levels = {each.rpartition("/")[2]: level for each, level in labels.items()}
    assert levels == {"enforce": "baseline", "audit": "restricted", "warn": "restricted"}
    assert "shared" not in program.one("OperatorReady").inputs


def test_a_missing_operator_is_installed_with_the_stacks_mark(declaring: Declare) -> None:
    """Images that are there are neither built nor pushed."""
    program = declaring(BARE)
    unique = [*program.of("Namespace"), program.one("CustomResourceDefinition")]
    names = {each.name for each in unique}
    assert names == {"slipway-jobs", "kubeflow", "pytorchjobs.kubeflow.org"}
    deployment = program.one("Deployment")
    theirs = declaring(THEIRS, namespace="team-a").one("ServiceAccount")
    for each in (*unique, deployment, theirs):
        assert annotations(each)["slipway.dev/stack"].endswith("/mine"), each.urn
    containers = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in containers] == [IMAGES["trainingOperator"]]
    assert program.starting("slipway:images") == []
    for template in templates(program.one("PyTorchJob")):
        assert template["spec"]["containers"][0]["image"] == IMAGES["trainer"]
    bindings = [*program.of("RoleBinding"), *program.of("ClusterRoleBinding")]
    assert len(bindings) == 4
    for binding in bindings:
        role = program.one(binding.inputs["roleRef"]["kind"], binding.name)
        assert role.urn in program.needs(binding)


def test_the_kubeconfig_is_secret_and_the_cluster_known_by_address(declaring: Declare) -> None:
    program = declaring(THEIRS, namespace="team-a")
    for kind in ("providers:kubernetes", "OperatorReady", "PyTorchJob"):
        assert program.one(kind).inputs["kubeconfig"] == secret("a kubeconfig"), kind
    provider = program.one("providers:kubernetes")
    assert provider.inputs["clusterIdentifier"] == "https://10.30.0.4:6443"
    assert provider.ignored == ()
    assert program.outputs["kubeconfig"] == secret("a kubeconfig")


@pytest.mark.parametrize("mark", ["jobs_of", "made_by"])
def test_a_cluster_with_the_stacks_objects_may_have_another_address(
    declaring: Declare, mark: str
) -> None:
    """Objects that were replaced would be applied first, and then deleted by their names."""
    program = declaring(replace(BARE, **{mark: "slipway/mine"}))  # type: ignore[arg-type]
    assert program.one("providers:kubernetes").ignored == ("clusterIdentifier",)


def test_what_can_not_be_used_is_refused_before_anything_is_declared(
    declaring: Declare, made: list[str]
) -> None:
    told = "slipway-jobs, which the stack would create, already"
    with pytest.raises(pulumi.RunError, match=told):
        declaring(Found(deployed=(), namespaces={"slipway-jobs": None}))
    assert made == []


def test_nodes_pull_with_the_registrys_entry_alone(declaring: Declare, tmp_path: Path) -> None:
    entry = {"auth": base64.b64encode(b"puller:canary").decode()}
    other = {"auth": base64.b64encode(b"me:of-another").decode()}
    file = tmp_path / "config.json"
    auths = {"registry.example:5000": entry, "other.example": other}
    file.write_text(json.dumps({"auths": auths}))
    registry = {"server": "registry.example:5000/team", "credentials": str(file)}
    program = declaring(BARE, registry=registry)
    secrets = [each.inputs for each in program.of("Secret") if each.name == "slipway-registry"]
    places = {each["metadata"]["namespace"] for each in secrets}
    assert places == {"slipway-jobs", "kubeflow"}
    for data in [each["data"] for each in secrets]:
        assert data == secret(data["value"])
        known = json.loads(base64.b64decode(data["value"][".dockerconfigjson"]))
        assert known == {"auths": {"registry.example:5000": entry}}
    for account in program.of("ServiceAccount"):
        assert account.inputs["imagePullSecrets"] == [{"name": "slipway-registry"}]
