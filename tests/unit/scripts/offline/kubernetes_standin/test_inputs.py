"""What the stand-in calls a change, and a change that replaces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.handler import UNKNOWN
from scripts.offline.kubernetes_standin.inputs import changes, property_path
from scripts.offline.kubernetes_standin.kinds import kind_of

_LEAVES = st.none() | st.booleans() | st.integers() | st.text()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_a_path_has_pulumis_syntax() -> None:
    assert property_path(("metadata", "annotations", "a.b/c")) == 'metadata.annotations["a.b/c"]'
    assert property_path(("spec", "ports", 0, 'a"')) == 'spec.ports[0]["a\\""]'


@given(st.dictionaries(st.text(), _TREES))
def test_equal_inputs_have_no_changes(tree: dict[str, Any]) -> None:
    assert changes(tree, tree, [("a",)]) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, {}),
        ({"a": 1}, {"a": True}, {"a": "update"}),
        ({"a": {}}, {"a": {}}, {}),
        ({"a": {"b": 1}}, {"a": {}}, {"a.b": "delete"}),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, {"a[1]": "update", "a[2]": "add"}),
        ({"a": [1, 2]}, {"a": [1]}, {"a[1]": "delete"}),
        ({"a": "x"}, {"a": UNKNOWN}, {"a": "update"}),
        ({}, {"a": UNKNOWN}, {"a": "add"}),
        ({"m": {"a.b/c": 1}}, {"m": {"a.b/c": 2}}, {'m["a.b/c"]': "update"}),
    ],
)
def test_each_changed_field_is_named(
    old: dict[str, Any], new: dict[str, Any], expected: dict[str, str]
) -> None:
    found = {change.path: change.kind for change in changes(old, new)}
    assert found == expected


@pytest.mark.parametrize(
    ("type_token", "old", "new", "expected"),
    [
        ("core/v1:ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data.a"]),
        ("core/v1:Secret", {"data": {"a": "1"}}, {"data": {}}, ["data.a"]),
        ("core/v1:Service", {"spec": {}}, {"spec": {"clusterIP": "None"}}, ["spec.clusterIP"]),
        ("core/v1:Service", {}, {"spec": {"clusterIP": "None"}}, ["spec"]),
        (
            "core/v1:PersistentVolume",
            {"spec": {"hostPath": {"path": "/a"}}},
            {"spec": {"hostPath": {"path": "/b"}}},
            ["spec.hostPath.path"],
        ),
        (
            "rbac.authorization.k8s.io/v1:RoleBinding",
            {"roleRef": {"name": "a"}},
            {"roleRef": {"name": UNKNOWN}},
            ["roleRef.name"],
        ),
        (
            "core/v1:ServiceAccount",
            {"metadata": {"name": "x", "namespace": "a", "labels": {"l": "1"}}},
            {"metadata": {"name": "y", "namespace": "b", "labels": {"l": "2"}}},
            ["metadata.name", "metadata.namespace"],
        ),
        (
            "apps/v1:Deployment",
            {"spec": {"replicas": 1, "selector": {"a": "b"}, "template": {"a": [{"image": "1"}]}}},
            {"spec": {"replicas": 2, "selector": {"a": "b"}, "template": {"a": [{"image": "2"}]}}},
            [],
        ),
    ],
)
def test_a_field_that_cannot_change_in_place_replaces(
    type_token: str, old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    kind = kind_of(f"urn:pulumi:dev::p::slipway:infra:X$kubernetes:{type_token}::n")
    found = changes(old, new, kind.fixed_fields)
    assert found
    assert [change.path for change in found if change.replace] == expected
