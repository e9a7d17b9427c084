"""What each stack in stacks/ declares: property by property, with no engine and no cluster."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import toolchain
from tests.program.declared import Declared, Program, declare, secret, templates

STACKS = sorted((Path(__file__).resolve().parents[2] / "stacks").glob("*.yaml"))
JOB, GATE = "slipway:jobs:PyTorchJob", "slipway:jobs:Gate"
READY = "slipway:infra:OperatorReady"
NAMESPACE = "kubernetes:core/v1:Namespace"
PLUGIN = "kubernetes:apps/v1:DaemonSet"
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module", params=STACKS, ids=lambda template: str(template.stem))
def template(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def program(template: Path, machine: pytest.MonkeyPatch) -> Program:
    # Without the operator's manifests there is no program; this says what to do.
    toolchain.path("training-operator-manifests")
    return declare(template, machine)


def kubernetes(program: Program) -> list[Declared]:
    return [each for each in program.resources if each.type.startswith("kubernetes:")]


def test_every_job_is_run_once_and_no_other(program: Program, template: Path) -> None:
    wanted = list(yaml.safe_load(template.read_text())["config"]["slipway:jobs"])
    assert sorted(job.name for job in program.of(JOB)) == sorted(wanted)
    result = {"state": "Succeeded", "accuracy": 0.98}
    assert program.outputs["jobs"] == dict.fromkeys(wanted, result)


def test_every_run_has_a_gate_that_judges_its_result(program: Program) -> None:
    for job in program.of(JOB):
        gate = program.one(GATE, job.name)
        assert job.urn in gate.dependencies
        assert gate.inputs["result"] == {"state": "Succeeded", "accuracy": 0.98}


def test_a_run_waits_for_the_operator_and_its_image(program: Program) -> None:
    ready, images = program.one(READY), {each.urn for each in program.of("slipway:images:Image")}
    for job in program.of(JOB):
        needs = program.needs(job)
        assert ready.urn in needs
        # That for GPUs or that without.
        assert len(needs & images) == 1


def test_the_operator_is_asked_when_all_of_it_is_there(program: Program) -> None:
    needs = program.needs(program.one(READY))
    own = {each.urn for each in kubernetes(program) if "training-operator" in each.name}
    assert own
    assert own <= needs


def test_the_operator_starts_when_its_namespaces_are_there(program: Program) -> None:
    operator = program.one("kubernetes:apps/v1:Deployment")
    namespaces = {each.urn for each in program.of(NAMESPACE) if each.name != "slipway-gpu"}
    assert namespaces
    assert namespaces <= program.needs(operator)


def test_what_is_in_a_namespace_comes_after_it(program: Program) -> None:
    namespaces = {each.inputs["metadata"]["name"]: each.urn for each in program.of(NAMESPACE)}
    placed = [each for each in kubernetes(program) if "namespace" in metadata(each)]
    assert placed
    for each in placed:
        assert namespaces[metadata(each)["namespace"]] in program.needs(each), each.urn


def metadata(resource: Declared) -> dict[str, Any]:
    found: dict[str, Any] = resource.inputs.get("metadata", {})
    return found


def test_every_namespace_is_restricted_but_that_of_the_device_plugin(program: Program) -> None:
    enforced = {
        metadata(each)["name"]: metadata(each)["labels"]["pod-security.kubernetes.io/enforce"]
        for each in program.of(NAMESPACE)
    }
    # It mounts the kubelet's socket from its node, and no other pod is in its namespace.
    plugin = {"slipway-gpu": "privileged"} if program.of(PLUGIN) else {}
    assert enforced == {"slipway-jobs": "restricted", "kubeflow": "restricted", **plugin}


def test_no_role_has_a_wildcard(program: Program) -> None:
    roles = [*program.of(f"{RBAC}:Role"), *program.of(f"{RBAC}:ClusterRole")]
    assert roles
    for rule in [rule for role in roles for rule in role.inputs["rules"]]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


def test_no_role_allows_exec_or_reads_secrets_of_jobs(program: Program) -> None:
    resources = {
        resource
        for role in program.of(f"{RBAC}:Role")
        if metadata(role)["namespace"] == "slipway-jobs"
        for rule in role.inputs["rules"]
        for resource in rule["resources"]
    }
    assert resources
    assert not resources & {"pods/exec", "pods/attach", "secrets", "serviceaccounts/token"}


def test_accounts_of_the_job_namespace_mount_no_token(program: Program) -> None:
    mounts = {
        metadata(each)["name"]: each.inputs["automountServiceAccountToken"]
        for each in program.of("kubernetes:core/v1:ServiceAccount")
        if metadata(each)["namespace"] == "slipway-jobs"
    }
    assert mounts == {"slipway-job": False, "slipway-submitter": False}


def test_jobs_run_as_an_account_that_is_bound_to_no_role(program: Program) -> None:
    bound = {
        subject["name"]
        for each in kubernetes(program)
        for subject in each.inputs.get("subjects", [])
    }
    assert bound == {"training-operator", "slipway-submitter"}
    for job in program.of(JOB):
        for template in templates(job).values():
            assert template["spec"]["serviceAccountName"] == "slipway-job"


def test_what_the_operator_writes_into_its_webhook_is_no_drift(program: Program) -> None:
    webhook = program.one(
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration"
    )
    assert webhook.ignored == ("webhooks[*].clientConfig.caBundle",)


def test_the_kubeconfig_is_a_secret_wherever_it_goes(program: Program) -> None:
    holders = [each for each in program.resources if each.inputs.get("kubeconfig") is not None]
    assert {each.type for each in holders} >= {"pulumi:providers:kubernetes", READY, JOB}
    text = program.outputs["kubeconfig"]["value"]
    assert text
    for each in holders:
        assert each.inputs["kubeconfig"] == secret(text), each.type
    assert program.outputs["kubeconfig"] == secret(text)


def test_every_kubernetes_object_is_made_in_the_stacks_own_cluster(program: Program) -> None:
    provider = program.one("pulumi:providers:kubernetes")
    assert provider.inputs["clusterIdentifier"]
    assert kubernetes(program)
    for each in kubernetes(program):
        assert each.provider == f"{provider.urn}::{provider.name}-id", each.urn


def test_no_map_is_empty_which_would_show_as_a_change_each_time(program: Program) -> None:
    for each in kubernetes(program):
        for name in ("labels", "annotations"):
            assert metadata(each).get(name) != {}, each.urn


def test_the_outputs_say_which_demos_cannot_run_here(program: Program, template: Path) -> None:
    skipped = program.outputs["skipped"]
    settings = yaml.safe_load(template.read_text())["config"]["slipway:cluster"]
    no_gpus = {name for name, reason in skipped.items() if "this cluster has none" in reason}
    assert no_gpus == (set() if "gpu" in settings else {"mnist-nccl", "cifar-nccl"})
    no_room = {name for name, reason in skipped.items() if "can never hold them" in reason}
    assert no_gpus | no_room == skipped.keys()


def test_importing_the_program_loads_and_declares_nothing(root: Path) -> None:
    # There is no engine: declaring a resource would fail.
    code = (
        "import sys, infra.program; "
        "late = ('pulumi_azure', 'clusters.embedded.'); "
        "print([name for name in sys.modules if name.startswith(late)])"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout.strip()) == (0, "[]"), finished.stderr
