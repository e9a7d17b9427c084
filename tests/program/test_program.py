"""What each stack in stacks/ declares: property by property, with no engine and no cluster."""

import re
from importlib.metadata import version
from typing import Any

import pytest

from core.manifests import read
from core.paths import CHECKOUT
from tests.program.declared import (
    STACKS,
    Declare,
    Declared,
    Program,
    declare,
    secret,
    template,
    templates,
)

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def program(stack: str, machine: pytest.MonkeyPatch) -> Program:
    return declare(template(stack), machine, stack=stack)


def kubernetes(program: Program) -> list[Declared]:
    found = program.starting("kubernetes:")
    assert found
    return found


def metadata(resource: Declared) -> dict[str, Any]:
    found: dict[str, Any] = resource.inputs.get("metadata", {})
    return found


def test_every_job_is_run_once_and_judged_by_its_gate(program: Program, stack: str) -> None:
    wanted = sorted(template(stack)["jobs"])
    result = {"state": "Succeeded", "accuracy": 0.98}
    assert program.names("PyTorchJob") == program.names("jobs:Gate") == wanted
    assert program.outputs["jobs"] == dict.fromkeys(wanted, result)
    images = {each.urn for each in program.of("images:Image")}
    for job in program.of("PyTorchJob"):
        gate = program.one("jobs:Gate", job.name)
        assert job.urn in gate.dependencies
        assert gate.inputs["result"] == result
        needs = program.needs(job)
        assert program.one("OperatorReady").urn in needs
        assert len(needs & images) == 1, "that for GPUs or that without"


def test_the_operator_starts_in_its_namespaces_and_is_asked_when_all_of_it_is_there(
    program: Program,
) -> None:
    operator = program.one("Deployment")
    spaces = {each.urn for each in program.of("Namespace") if each.name != "slipway-gpu"}
    assert len(spaces) == 2
    assert spaces <= program.needs(operator)
    own = {each.urn for each in kubernetes(program) if "training-operator" in each.name}
    assert operator.urn in own
    assert own <= program.needs(program.one("OperatorReady"))


def test_objects_are_in_the_stacks_cluster_after_their_namespace_and_show_no_drift(
    program: Program,
) -> None:
    provider = program.one("providers:kubernetes")
    assert provider.inputs["clusterIdentifier"]
    namespaces = {metadata(each)["name"]: each.urn for each in program.of("Namespace")}
    for each in kubernetes(program):
        assert each.provider == f"{provider.urn}::{provider.name}-id", each.urn
        assert each.request.version == version("pulumi_kubernetes"), "the plugin that is there"
        if "namespace" in metadata(each):
            assert namespaces[metadata(each)["namespace"]] in program.needs(each), each.urn
        for name in ("labels", "annotations"):
            assert metadata(each).get(name) != {}, f"{each.urn} would change each time"
    webhook = program.one("ValidatingWebhookConfiguration")
    assert webhook.ignored == ("webhooks[*].clientConfig.caBundle",), "the operator writes it"


def test_objects_are_deleted_and_recreated_with_the_cluster_that_the_stack_created(
    program: Program,
) -> None:
    (cluster,) = {each.request.deletedWith for each in kubernetes(program)}
    exists = program.outputs["cluster"]["kind"] == "kubeconfig"
    own = {"Embedded", "Kind", "Minikube", "ManagedCluster", "Resource"}
    assert {re.split("[:$]", cluster.split("::")[2])[-1]} <= own if not exists else not cluster


def test_what_has_a_fixed_name_is_deleted_before_it_is_replaced(program: Program) -> None:
    """`--replace` asks no provider, so the old one, deleted last, would take the new one along."""
    made = [*kubernetes(program), *program.starting("azure-native:")]
    for kind in ("Embedded", "Kind", "Minikube", "OperatorReady", "PyTorchJob", "Claim"):
        made += program.of(kind)
    assert [each.urn for each in made if not each.request.deleteBeforeReplace] == []


def test_every_namespace_is_restricted_but_that_of_the_device_plugin(program: Program) -> None:
    enforced = {
        metadata(each)["name"]: metadata(each)["labels"]["pod-security.kubernetes.io/enforce"]
        for each in program.of("Namespace")
    }
    # It mounts the kubelet's socket from its node, and no other pod is in its namespace.
    plugin = {"slipway-gpu": "privileged"} if program.of("DaemonSet") else {}
    assert enforced == {"slipway-jobs": "restricted", "kubeflow": "restricted", **plugin}


def of_jobs(program: Program) -> set[str]:
    """Return the resources that a role in the jobs' namespace has any right to."""
    return {
        resource
        for role in program.of(f"{RBAC}:Role")
        if metadata(role)["namespace"] == "slipway-jobs"
        for rule in role.inputs["rules"]
        for resource in rule["resources"]
    }


def test_no_role_has_a_wildcard_allows_exec_or_reads_secrets_of_jobs(program: Program) -> None:
    roles = [*program.of(f"{RBAC}:Role"), *program.of(f"{RBAC}:ClusterRole")]
    for rule in [rule for role in roles for rule in role.inputs["rules"]]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
    resources = of_jobs(program)
    assert resources
    assert not resources & {"pods/exec", "pods/attach", "secrets", "serviceaccounts/token"}


def test_only_a_stack_that_allows_it_lets_a_submitter_run_commands_in_pods(
    declared: Declare,
) -> None:
    """Who installs the stack with slipway-installer's rights has those that it grants."""
    program = declared(exec=True, jobs={})
    assert "pods/exec" in of_jobs(program)
    assert program.outputs["cluster"]["exec"]
    installer = read(CHECKOUT / "examples/roles/slipway-installer.yaml")["rules"]
    assert of_jobs(program) <= {each for rule in installer for each in rule["resources"]}


def test_jobs_run_as_an_account_without_a_token_and_without_a_role(program: Program) -> None:
    mounts = {
        metadata(each)["name"]: each.inputs["automountServiceAccountToken"]
        for each in program.of("ServiceAccount")
        if metadata(each)["namespace"] == "slipway-jobs"
    }
    assert mounts == {"slipway-job": False, "slipway-submitter": False}
    subjects = [it for each in kubernetes(program) for it in each.inputs.get("subjects", [])]
    bound = {subject["name"] for subject in subjects}
    assert bound == {"training-operator", "slipway-submitter"}
    for job in program.of("PyTorchJob"):
        for pod in templates(job):
            assert pod["spec"]["serviceAccountName"] == "slipway-job"


def test_the_kubeconfig_is_a_secret_wherever_it_goes(program: Program) -> None:
    holders = [each for each in program.resources if each.inputs.get("kubeconfig") is not None]
    kinds = {each.type.rpartition(":")[2] for each in holders}
    assert kinds >= {"kubernetes", "OperatorReady", "PyTorchJob"}
    text = program.outputs["kubeconfig"]["value"]
    assert text
    for each in (program.outputs, *(each.inputs for each in holders)):
        assert each["kubeconfig"] == secret(text)


def test_the_outputs_say_which_demos_cannot_run_here(program: Program, stack: str) -> None:
    skipped = program.outputs["skipped"]
    has_gpus = "gpu" in template(stack)["cluster"]
    assert ("cuda" in program.outputs) == bool(program.of("GpuReady")) == has_gpus
    no_gpus = {name for name, reason in skipped.items() if "this cluster has none" in reason}
    assert no_gpus == (set() if has_gpus else {"mnist-nccl", "cifar-nccl"})
    no_room = {name for name, reason in skipped.items() if "can never hold them" in reason}
    assert no_gpus | no_room == skipped.keys()
