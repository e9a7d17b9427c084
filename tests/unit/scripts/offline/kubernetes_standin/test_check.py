"""What is refused by name before anything is done, and how inputs are used."""

from typing import Any

import pytest
from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN
from infra.provider.engine import wrap_map
from scripts.offline.kubernetes_standin.kinds import SDK_VERSION, Unserved, kind_of
from scripts.offline.kubernetes_standin.manifest import (
    check,
    has_unknown,
    to_object,
    to_properties,
)

SKIPPED = {"pulumi.com/skipAwait": "true"}


def urn(type_token: str) -> str:
    return f"urn:pulumi:dev::project::slipway:infra:Parent$kubernetes:{type_token}::name"


def checked(type_token: str, **fields: Any) -> dict[str, Any]:
    return to_object(check(urn(type_token), wrap_map(fields)))


def named(**metadata: Any) -> dict[str, Any]:
    return {"name": "x", "namespace": "n", **metadata}


@pytest.mark.parametrize(
    "type_token",
    [
        "helm.sh/v3:Release",
        "kustomize/v2:Directory",
        "yaml/v2:ConfigFile",
        "batch/v1:Job",
        "core/v1:NamespacePatch",
        "core/v1:ConfigMapList",
        "kubeflow.org/v1:PyTorchJob",
    ],
)
def test_a_type_that_the_product_does_not_declare_is_refused_by_name(type_token: str) -> None:
    with pytest.raises(Unserved, match=f"the type kubernetes:{type_token}; add it to") as raised:
        checked(type_token, metadata=named())
    assert f"install the real plugin pulumi-resource-kubernetes {SDK_VERSION}" in str(raised.value)


@pytest.mark.parametrize(
    ("type_token", "metadata", "refused"),
    [
        ("core/v1:ConfigMap", {"namespace": "n"}, "autonaming.*; set metadata.name"),
        ("core/v1:ConfigMap", {"namespace": "n", "generateName": "x-"}, "autonaming"),
        ("core/v1:ConfigMap", {"name": "x"}, "a ConfigMap without metadata.namespace"),
        ("apps/v1:Deployment", named(), "waiting until a Deployment is ready; set .*skipAwait"),
        ("apps/v1:DaemonSet", named(), "waiting until a DaemonSet is ready"),
        ("core/v1:Service", named(annotations={}), "waiting until a Service is ready"),
        ("core/v1:PersistentVolumeClaim", named(), "waiting until a PersistentVolumeClaim"),
        *(
            ("core/v1:ConfigMap", named(annotations={f"pulumi.com/{name}": "x"}), f"com/{name};")
            for name in (
                "deletionPropagationPolicy",
                "patchForce",
                "replaceUnready",
                "timeoutSeconds",
                "waitFor",
            )
        ),
    ],
)
def test_what_only_the_real_plugin_does_is_refused_by_name(
    type_token: str, metadata: dict[str, Any], refused: str
) -> None:
    with pytest.raises(Unserved, match=refused):
        checked(type_token, metadata=metadata)


def test_a_secrets_text_is_refused_by_name() -> None:
    with pytest.raises(Unserved, match="a Secret's stringData; set data"):
        checked("core/v1:Secret", metadata=named(), stringData={"a": "b"})


def test_inputs_are_used_as_they_are_declared() -> None:
    assert checked("core/v1:Namespace", metadata={"name": "x"}) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "x"},
    }
    awaited = named(annotations={**SKIPPED, "example.com/a": "b"})
    assert checked("apps/v1:Deployment", metadata=awaited)["metadata"] == awaited
    unknown = named(name=UNKNOWN, annotations=SKIPPED)
    service = checked("core/v1:Service", metadata=unknown)
    assert service["metadata"] == unknown
    assert has_unknown(service)


def test_a_kind_is_known_by_its_urn() -> None:
    kind = kind_of(urn("rbac.authorization.k8s.io/v1:RoleBinding"))
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings"
    assert kind.path("n", "x") == f"{base}/x"
    assert kind.path("n") == base
    assert kind_of(urn("core/v1:Namespace")).path(None, "x") == "/api/v1/namespaces/x"


def test_properties_and_objects_are_the_same_thing_in_two_forms() -> None:
    obj = {"a": {"x-kubernetes-int-or-string": True}, "l": [1, 1.5, "s", False, UNKNOWN], "e": {}}
    properties = to_properties(obj, {})
    assert "x_kubernetes_int_or_string" in str(properties["a"].value)
    assert to_object(properties) == obj
    assert to_object(wrap_map({"a": None, "b": {"c": None}})) == {"b": {}}
    assert has_unknown(obj)
    assert not has_unknown({"a": ["b"]})


def secret_names(properties: dict[str, PropertyValue]) -> list[str]:
    return [name for name, value in properties.items() if value.is_secret]


def test_what_came_in_as_a_secret_stays_one() -> None:
    given = {"data": PropertyValue({"password": PropertyValue("hunter2", is_secret=True)})}
    live = {"kind": "ConfigMap", "data": {"password": "hunter2"}, "open": "seen"}
    assert secret_names(to_properties(live, given)) == ["data"]


def test_a_secrets_content_is_secret_whatever_came_in() -> None:
    copy = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{hunter2}"}}
    live = {"kind": "Secret", "metadata": copy, "data": {"a": "aHVudGVyMg=="}, "type": "Opaque"}
    assert secret_names(to_properties(live, {})) == ["metadata", "data"]
