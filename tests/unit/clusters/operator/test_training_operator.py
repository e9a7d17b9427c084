"""The training operator's objects, rendered from its release, do what they promise."""

import re
from copy import deepcopy
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


@pytest.fixture(scope="module")
def init_container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The workers' init container as the operator reads it, for the master `m`."""
    (template,) = one(objects, "ConfigMap")["data"].values()
    (container,) = yaml.safe_load(template.replace("{{.MasterAddr}}", "m"))
    assert isinstance(container, dict)
    return container


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


def test_the_pytorchjob_crd_is_the_releases(objects: list[dict[str, Any]], release: Path) -> None:
    definition = one(objects, "CustomResourceDefinition")
    assert definition == read(release / "base/crds/kubeflow.org_pytorchjobs.yaml")


def test_everything_in_a_namespace_is_in_one_of_the_two(objects: list[dict[str, Any]]) -> None:
    wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    wide.add("ValidatingWebhookConfiguration")
    for each in objects:
        expected = {None} if each["kind"] in wide else {"kubeflow", JOBS}
        assert each["metadata"].get("namespace") in expected, each["kind"]


def test_the_operator_has_no_more_than_asked(objects: list[dict[str, Any]], release: Path) -> None:
    asked = rights(read(release / "base/rbac/role.yaml")["rules"])
    granted = rights([rule for each in objects for rule in each.get("rules", [])])
    assert granted
    assert granted <= asked


def test_cluster_wide_the_operator_has_its_webhook_alone(objects: list[dict[str, Any]]) -> None:
    found = {resource for _, resource, _ in rights(rules(objects, None))}
    assert found == {"validatingwebhookconfigurations"}
    (writing,) = (rule for rule in rules(objects, None) if "update" in rule["verbs"])
    webhook = one(objects, "ValidatingWebhookConfiguration")
    assert writing["resourceNames"] == [webhook["metadata"]["name"]]


def test_the_operator_reads_no_secret_but_its_own(objects: list[dict[str, Any]]) -> None:
    (writing,) = (rule for rule in rules(objects, "kubeflow") if "update" in rule["verbs"])
    assert writing["resourceNames"] == [one(objects, "Secret")["metadata"]["name"]]
    assert "secrets" not in {resource for _, resource, _ in rights(rules(objects, JOBS))}


def test_every_role_is_bound_to_the_operators_account(objects: list[dict[str, Any]]) -> None:
    account = one(objects, "ServiceAccount")["metadata"]
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects if "rules" in each}
    bindings = [each for each in objects if "roleRef" in each]
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == roles
    for each in bindings:
        assert each["subjects"] == [
            {"kind": "ServiceAccount", "namespace": account["namespace"], "name": account["name"]}
        ]


def test_the_operator_runs_pytorchjobs_of_one_namespace(operator: dict[str, Any]) -> None:
    (container,) = operator["containers"]
    schemes = [arg for arg in container["args"] if arg.startswith("--enable-scheme")]
    assert schemes == ["--enable-scheme=pytorchjob"]
    assert f"--namespace={JOBS}" in container["args"]
    assert (container["image"], container["imagePullPolicy"]) == (IMAGE, "IfNotPresent")


def test_the_operator_has_its_file(objects: list[dict[str, Any]], operator: dict[str, Any]) -> None:
    (container,) = operator["containers"]
    flag = "--pytorch-init-container-template-file="
    (path,) = (arg.removeprefix(flag) for arg in container["args"] if arg.startswith(flag))
    directory, _, file = path.rpartition("/")
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == directory)
    (volume,) = (each for each in operator["volumes"] if each["name"] == mount["name"])
    config = one(objects, "ConfigMap")
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert [*config["data"]] == [file]


def test_the_operators_pod_is_restricted_bounded_and_quick(operator: dict[str, Any]) -> None:
    (container,) = operator["containers"]
    assert_restricted(container)
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    # It is ready in seconds, and leaves a lost node in seconds.
    probe = container["readinessProbe"]
    assert probe["httpGet"]["path"] == "/readyz"
    assert probe["initialDelaySeconds"] <= 5
    assert probe["periodSeconds"] == 1
    tolerated = {each["key"]: each["tolerationSeconds"] for each in operator["tolerations"]}
    assert tolerated == {f"node.kubernetes.io/{each}": 10 for each in ("not-ready", "unreachable")}


def test_two_operators_never_run_side_by_side(objects: list[dict[str, Any]]) -> None:
    spec = one(objects, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")


def test_workers_wait_for_the_masters_port_with_a_limit(init_container: dict[str, Any]) -> None:
    assert init_container["image"] == WAIT_IMAGE
    assert init_container["imagePullPolicy"] == "IfNotPresent"
    assert init_container["args"][-1] == "m:23456"
    assert "-limit" in init_container["args"]
    assert init_container["resources"].keys() == {"requests", "limits"}
    assert_restricted(init_container)


def test_the_template_survives_gos_html_escaping(objects: list[dict[str, Any]]) -> None:
    (template,) = one(objects, "ConfigMap")["data"].values()
    assert re.findall(r"{{.*?}}", template) == ["{{.MasterAddr}}"]
    assert not set("<>&") & set(template)


def test_another_wait_image_restarts_the_operator(release: Path) -> None:
    before = deployment(release, JOBS, IMAGE, WAIT_IMAGE)
    after = deployment(release, JOBS, IMAGE, "example.org/tcp-wait:2")
    assert before["spec"]["template"] != after["spec"]["template"]


def test_the_webhook_judges_pytorchjobs_alone(objects: list[dict[str, Any]]) -> None:
    (webhook,) = one(objects, "ValidatingWebhookConfiguration")["webhooks"]
    (rule,) = webhook["rules"]
    assert rule["resources"] == ["pytorchjobs"]
    assert webhook["failurePolicy"] == "Fail"
    service = one(objects, "Service")
    assert webhook["clientConfig"]["service"] == {
        "name": service["metadata"]["name"],
        "namespace": service["metadata"]["namespace"],
        "path": "/validate-kubeflow-org-v1-pytorchjob",
    }
    selector = one(objects, "Deployment")["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == selector


def test_rendering_is_pure(release: Path, objects: list[dict[str, Any]]) -> None:
    kept = deepcopy(objects)
    again = [*foundations(release, JOBS, WAIT_IMAGE), deployment(release, JOBS, IMAGE, WAIT_IMAGE)]
    assert again == kept == objects


def assert_restricted(container: dict[str, Any]) -> None:
    """Assert that the Pod Security Standard `restricted` admits `container`, and more."""
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] != 0
    assert context["readOnlyRootFilesystem"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
