"""What a stack declares in a cluster that somebody else has made."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.kubeconfig.found import Deployed, Found
from tests.program.declared import Declare, Program, secret, templates

JOB, READY = "slipway:jobs:PyTorchJob", "slipway:infra:OperatorReady"
SECRET = "kubernetes:core/v1:Secret"
PROVIDER = "pulumi:providers:kubernetes"
IMAGES = {name: f"example.org/{name}:1" for name in ("trainer", "trainingOperator", "tcpWait")}
OPERATOR = Deployed("kubeflow", "training-operator", "example.org/training-operator:v1.9.2")


@pytest.fixture
def declaring(declared: Declare, there_is: Callable[[Found], None]) -> Declare:
    """Run the program on a cluster where the first argument is what there is."""

    def run(there: Found, **said: Any) -> Program:
        there_is(there)
        cluster = {"kind": "kubeconfig", "context": "work", "images": IMAGES, **said}
        return declared("mine", cluster=cluster, jobs={"mnist-gloo": {}})

    return run


def kinds(program: Program) -> list[str]:
    """Return the kinds of the Kubernetes objects, each as often as there are such."""
    types = [each.type for each in program.resources if each.type.startswith("kubernetes:")]
    return sorted(each.rpartition(":")[2] for each in types)


THEIRS = Found(serves=True, deployed=(OPERATOR,), judged=True, namespaces={"team-a": None})


def test_with_an_operator_and_a_namespace_almost_nothing_is_made(declaring: Declare) -> None:
    program = declaring(THEIRS, namespace="team-a")
    assert kinds(program) == ["NetworkPolicy", "ServiceAccount"]
    for each in program.resources:
        metadata = each.inputs.get("metadata", {})
        assert metadata.get("namespace", "team-a") == "team-a"
    job = program.one(JOB)
    assert job.inputs["namespace"] == "team-a"
    assert program.one(READY).urn in program.needs(job)


def test_in_an_existing_namespace_the_network_policy_selects_only_slipways_pods(
    declaring: Declare,
) -> None:
    program = declaring(THEIRS, namespace="team-a")
    policy = program.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    own = {"matchLabels": {"app.kubernetes.io/managed-by": "slipway"}}
    assert policy["podSelector"] == own
    assert policy["ingress"] == [{"from": [{"podSelector": own}]}]
    [in_the_cluster, elsewhere] = [rule["to"] for rule in policy["egress"]]
    assert in_the_cluster == [{"namespaceSelector": {}}]
    clouds_metadata = ["169.254.169.254/32", "168.63.129.16/32"]
    assert elsewhere[0]["ipBlock"] == {"cidr": "0.0.0.0/0", "except": clouds_metadata}
    over_ipv6 = ["fd00:ec2::254/128", "fd20:ce::254/128"]
    assert elsewhere[1]["ipBlock"] == {"cidr": "::/0", "except": over_ipv6}
    for template in templates(program.one(JOB)).values():
        assert own["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_the_gate_knows_whose_operator_it_waits_for(declaring: Declare) -> None:
    ready = declaring(THEIRS, namespace="team-a").one(READY).inputs
    place = {"namespace": "kubeflow", "deployment": "training-operator"}
    assert ready["existing"] == {"version": "1.9.2", **place, "judges": True}
    assert ready["shared"] is True
    assert ready["jobNamespace"] == "team-a"
    assert "deployment" not in ready


def test_an_existing_operators_namespace_admits_the_init_container(declaring: Declare) -> None:
    program = declaring(THEIRS)
    labels = program.one("kubernetes:core/v1:Namespace").inputs["metadata"]["labels"]
    levels = {each.rpartition("/")[2]: level for each, level in labels.items()}
    assert levels == {"enforce": "baseline", "audit": "restricted", "warn": "restricted"}
    assert "shared" not in program.one(READY).inputs


def test_a_missing_operator_is_installed_with_the_stacks_mark(declaring: Declare) -> None:
    (account,) = declaring(THEIRS, namespace="team-a").of("kubernetes:core/v1:ServiceAccount")
    program = declaring(Found(deployed=()))
    definition = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
    unique = [*program.of("kubernetes:core/v1:Namespace"), program.one(definition)]
    names = {each.name for each in unique}
    assert names == {"slipway-jobs", "kubeflow", "pytorchjobs.kubeflow.org"}
    deployment = program.one("kubernetes:apps/v1:Deployment")
    for each in (*unique, deployment, account):
        mark = each.inputs["metadata"]["annotations"]["slipway.dev/stack"]
        assert mark.endswith("/mine"), each.urn
    containers = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in containers] == [IMAGES["trainingOperator"]]


def test_a_binding_comes_after_its_role(declaring: Declare) -> None:
    program = declaring(Found(deployed=()))
    group = "kubernetes:rbac.authorization.k8s.io/v1"
    bindings = [*program.of(f"{group}:RoleBinding"), *program.of(f"{group}:ClusterRoleBinding")]
    assert len(bindings) == 4
    for binding in bindings:
        role = program.one(f"{group}:{binding.inputs['roleRef']['kind']}", binding.name)
        assert role.urn in program.needs(binding)


def test_images_that_are_there_are_neither_built_nor_pushed(declaring: Declare) -> None:
    program = declaring(Found(deployed=()))
    assert [each.type for each in program.resources if "slipway:images" in each.type] == []
    pods = templates(program.one(JOB)).values()
    images = {each["spec"]["containers"][0]["image"] for each in pods}
    assert images == {IMAGES["trainer"]}


def test_the_kubeconfig_is_secret_and_the_cluster_known_by_address(declaring: Declare) -> None:
    program = declaring(THEIRS, namespace="team-a")
    for type_token in (PROVIDER, READY, JOB):
        assert program.one(type_token).inputs["kubeconfig"] == secret("a kubeconfig"), type_token
    assert program.one(PROVIDER).inputs["clusterIdentifier"] == "https://a.example:6443"
    assert program.outputs["kubeconfig"] == secret("a kubeconfig")


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
    program = declaring(Found(deployed=()), registry=registry)
    secrets = [each for each in program.of(SECRET) if each.name == "slipway-registry"]
    places = {each.inputs["metadata"]["namespace"] for each in secrets}
    assert places == {"slipway-jobs", "kubeflow"}
    for each in secrets:
        data = each.inputs["data"]
        assert data == secret(data["value"])
        known = json.loads(base64.b64decode(data["value"][".dockerconfigjson"]))
        assert known == {"auths": {"registry.example:5000": entry}}
    for account in program.of("kubernetes:core/v1:ServiceAccount"):
        assert account.inputs["imagePullSecrets"] == [{"name": "slipway-registry"}]


def test_where_the_registry_asks_for_no_login_there_is_no_secret(declaring: Declare) -> None:
    program = declaring(THEIRS, namespace="team-a")
    assert program.of(SECRET) == []
    (account,) = program.of("kubernetes:core/v1:ServiceAccount")
    assert "imagePullSecrets" not in account.inputs
