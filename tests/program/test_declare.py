"""Kubernetes objects are declared without the SDK's classes of their kinds, and yet as by them."""

from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any

import pulumi
import pulumi_kubernetes
import pytest

from clusters.image_registry import with_pull_secret
from clusters.nodes import GpuPool
from clusters.operator import training_operator as operator
from core import declare, toolchain
from core.manifests import Manifest, restricted_namespace
from infra import namespace
from infra.gpus import manifests as gpu_manifests
from jobs.model import volumes
from jobs.model.job import TrainingJob
from jobs.model.parts import Volume
from tests.program.declared import Program, executed

JOB = TrainingJob(
    name="mine", script="train.py", volumes={"data": Volume(host_path="/data", mount_path="/data")}
)
SCRIPT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "mine", "namespace": "jobs"},
    "data": {"train.py": "print()"},
    "binaryData": {"weights": "AA=="},
}
_MODULES = {
    "admissionregistration.k8s.io/v1": "admissionregistration.v1",
    "apiextensions.k8s.io/v1": "apiextensions.v1",
    "apps/v1": "apps.v1",
    "core/v1": "core.v1",
    "networking.k8s.io/v1": "networking.v1",
    "rbac.authorization.k8s.io/v1": "rbac.v1",
}
_ARGUMENTS = {
    "apiVersion": "api_version",
    "automountServiceAccountToken": "automount_service_account_token",
    "binaryData": "binary_data",
    "imagePullSecrets": "image_pull_secrets",
    "roleRef": "role_ref",
}


def test_only_a_stack_that_allows_it_lets_a_submitter_run_commands_in_pods() -> None:
    def rights(*, may_exec: bool) -> list[str]:
        contents = namespace.contents("jobs", own=True, known={}, may_exec=may_exec)
        roles = [each for each in contents if each["kind"] == "Role"]
        return [name for role in roles for rule in role["rules"] for name in rule["resources"]]

    assert "pods/exec" not in rights(may_exec=False)
    assert "pods/exec" in rights(may_exec=True)


def manifests() -> list[Manifest]:
    """Return objects of every kind that a stack may declare."""
    source = toolchain.path("training-operator-manifests")
    contents = namespace.contents("jobs", own=True, known={})
    inside = with_pull_secret(contents, "jobs", "{}")
    return [
        restricted_namespace("jobs"),
        *inside,
        *operator.foundations(source, "jobs", "wait"),
        operator.deployment(source, "jobs", "operator", "wait"),
        *gpu_manifests.device_plugin(GpuPool(per_node=1), "plugin"),
        *volumes.host_volumes(JOB, "jobs"),
        SCRIPT,
    ]


def main() -> None:
    """Declare them all."""
    provider = pulumi_kubernetes.Provider("there", kubeconfig="")
    for number, manifest in enumerate(manifests()):
        parent = pulumi.ComponentResource("slipway:test:Parent", str(number))
        ignored = ["webhooks[*].clientConfig.caBundle"]
        opts = pulumi.ResourceOptions(parent=parent, provider=provider, ignore_changes=ignored)
        declare.declare(manifest, opts)


def by_the_sdk(
    token: str, name: str, properties: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Declare an object by the SDK's class of its kind, which knows some of the options itself."""
    _, group, kind = token.split(":")
    module = import_module(f"pulumi_kubernetes.{_MODULES[group]}")
    arguments = {_ARGUMENTS.get(key, key): value for key, value in properties.items()}
    opts = copy(opts)
    opts.version = opts.additional_secret_outputs = None
    declared: pulumi.CustomResource = getattr(module, kind)(name, **arguments, opts=opts)
    return declared


def requests(program: Program) -> dict[str, Any]:
    """Return what was sent for each object, less what makes no difference to one that is there."""
    sent = {each.urn: each.request for each in program.resources if "kubernetes:" in each.type}
    for request in sent.values():
        # Where the program stood, and types that Slipway has never used.
        for field in ("aliases", "sourcePosition", "stackTrace"):
            request.ClearField(field)
    return sent


def test_the_engine_is_sent_what_the_sdks_classes_send(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = requests(executed(main, "dev"))
    monkeypatch.setattr(declare, "CustomResource", by_the_sdk)
    theirs = requests(executed(main, "dev"))
    assert len({request.type for request in ours.values()}) == 16, "every kind"
    assert ours.keys() == theirs.keys()
    for urn, request in ours.items():
        assert request == theirs[urn], urn


def test_what_a_component_cannot_go_on_without_is_raised_and_ends_no_process() -> None:
    """The provider's process serves the rest of the program."""
    with pytest.raises(pulumi.RunError, match="not ready"):
        declare.end("the cluster is not ready")
