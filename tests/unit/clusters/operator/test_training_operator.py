"""The training operator's objects, rendered from its release, do what they promise."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.operator.training_operator import deployment, foundations
from core import toolchain
from core.manifests import read

JOBS = "slipway-jobs"
WAIT_IMAGE, IMAGE = "example.org/tcp-wait:1", "example.org/operator:1"


@pytest.fixture(scope="module")
def release() -> Path:
    """The `manifests` of the operator's release; `make setup` provides them."""
    return toolchain.path("training-operator-manifests")


@pytest.fixture(scope="module")
def objects(release: Path) -> list[dict[str, Any]]:
    return [*foundations(release, JOBS, WAIT_IMAGE), deployment(release, JOBS, IMAGE, WAIT_IMAGE)]


@pytest.fixture(scope="module")
def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The operator's pod."""
    pod: dict[str, Any] = one(objects, "Deployment")["spec"]["template"]["spec"]
    return pod


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def rules(objects: list[dict[str, Any]], namespace: str | None) -> list[dict[str, Any]]:
    """Return the rules that hold in `namespace`; None for those of the whole cluster."""
    kind = "ClusterRole" if namespace is None else "Role"
    return [
        rule
        for role in objects
        if role["kind"] == kind and role["metadata"].get("namespace") == namespace
        for rule in role["rules"]
    ]


def rights(given: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in given
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_operator_has_no_more_than_the_release_asks_and_it_needs(
    objects: list[dict[str, Any]], release: Path
) -> None:
    asked = rights(read(release / "base/rbac/role.yaml")["rules"])
    granted = rights([rule for each in objects for rule in each.get("rules", [])])
    assert set() < granted <= asked
    # In the whole cluster its webhook alone, and no secret but its own.
    found = {resource for _, resource, _ in rights(rules(objects, None))}
    assert found == {"validatingwebhookconfigurations"}
    for namespace, kind in ((None, "ValidatingWebhookConfiguration"), ("kubeflow", "Secret")):
        (writing,) = (rule for rule in rules(objects, namespace) if "update" in rule["verbs"])
        assert writing["resourceNames"] == [one(objects, kind)["metadata"]["name"]]


def test_one_operator_runs_pytorchjobs_of_one_namespace(
    objects: list[dict[str, Any]], operator: dict[str, Any], release: Path
) -> None:
    (container,) = operator["containers"]
    schemes = [arg for arg in container["args"] if arg.startswith("--enable-scheme")]
    assert schemes == ["--enable-scheme=pytorchjob"]
    assert f"--namespace={JOBS}" in container["args"]
    assert (container["image"], container["imagePullPolicy"]) == (IMAGE, "IfNotPresent")
    spec = one(objects, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    # It reads the image that workers wait with only when it starts.
    after = deployment(release, JOBS, IMAGE, "example.org/tcp-wait:2")
    assert spec["template"] != after["spec"]["template"]


def test_the_operators_pod_is_restricted_bounded_and_quick(operator: dict[str, Any]) -> None:
    (container,) = operator["containers"]
    assert_bounded_and_restricted(container)
    # It is ready in seconds, and leaves a lost node in seconds.
    probe = container["readinessProbe"]
    assert probe["httpGet"]["path"] == "/readyz"
    assert probe["initialDelaySeconds"] <= 5
    assert probe["periodSeconds"] == 1
    tolerated = {each["key"]: each["tolerationSeconds"] for each in operator["tolerations"]}
    assert tolerated == {f"node.kubernetes.io/{each}": 10 for each in ("not-ready", "unreachable")}


def test_workers_wait_for_the_masters_port_with_a_limit(objects: list[dict[str, Any]]) -> None:
    (template,) = one(objects, "ConfigMap")["data"].values()
    (init_container,) = yaml.safe_load(template.replace("{{.MasterAddr}}", "m"))
    assert init_container["image"] == WAIT_IMAGE
    assert init_container["imagePullPolicy"] == "IfNotPresent"
    assert init_container["args"][-1] == "m:23456"
    assert "-limit" in init_container["args"]
    assert_bounded_and_restricted(init_container)


def test_the_webhook_judges_pytorchjobs_alone(objects: list[dict[str, Any]]) -> None:
    (webhook,) = one(objects, "ValidatingWebhookConfiguration")["webhooks"]
    (rule,) = webhook["rules"]
    assert rule["resources"] == ["pytorchjobs"]
    assert webhook["failurePolicy"] == "Fail"


def assert_bounded_and_restricted(container: dict[str, Any]) -> None:
    """Assert that the Pod Security Standard `restricted` admits `container`, and more."""
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] != 0
    assert context["readOnlyRootFilesystem"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
