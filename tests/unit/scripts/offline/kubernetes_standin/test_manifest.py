"""What the stand-in calls a change, a change that replaces, and drift."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.handler import UNKNOWN
from scripts.offline.kubernetes_standin.kinds import kind_of
from scripts.offline.kubernetes_standin.manifest import changes, drifted

_LEAVES = st.none() | st.booleans() | st.integers() | st.text()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _TREES))
def test_equal_inputs_have_no_changes(tree: dict[str, Any]) -> None:
    assert changes(tree, tree, ["a"]) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, {}),
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
        ("core/v1:ConfigMap", {"data": {"a.b": "1"}}, {"data": {"a.b": "2"}}, ['data["a.b"]']),
        ("core/v1:Secret", {"data": {"a": "1"}}, {"data": {}}, ["data.a"]),
        ("core/v1:Secret", {"data": {"a": "1"}}, {}, ["data"]),
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
    found = changes(old, new, kind.fixed)
    assert found
    assert [change.path for change in found if change.replace] == expected


@pytest.mark.parametrize(
    ("given_inputs", "before", "now", "expected"),
    [
        # Respelled by the server, and not changed since.
        ({"cpu": "1000m"}, {"cpu": "1"}, {"cpu": "1"}, {"cpu": "1000m"}),
        ({"cpu": "1000m"}, {"cpu": "1"}, {"cpu": "2"}, {"cpu": "2"}),
        # Never there on the server: an empty map, a field that it drops.
        ({"annotations": {}}, {}, {}, {"annotations": {}}),
        # Taken away, and added by someone else.
        ({"a": "1", "b": "1"}, {"a": "1", "b": "1"}, {"b": "1", "c": "1"}, {"b": "1"}),
        # Lists: what admission appended is no drift, another item is.
        ({"l": ["a"]}, {"l": ["a", "token"]}, {"l": ["a", "token"]}, {"l": ["a"]}),
        ({"l": ["a"]}, {"l": ["a"]}, {"l": ["a", "b"]}, {"l": ["a", "b"]}),
        ({"l": ["a", "b"]}, {"l": ["a", "b"]}, {"l": ["a"]}, {"l": ["a"]}),
        (
            {"l": [{"n": "a", "v": "1"}]},
            {"l": [{"n": "a", "v": "1", "default": 1}]},
            {"l": [{"n": "a", "v": "2", "default": 1}]},
            {"l": [{"n": "a", "v": "2"}]},
        ),
    ],
)
def test_drift_is_what_changed_on_the_cluster(
    given_inputs: dict[str, Any],
    before: dict[str, Any],
    now: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    assert drifted(given_inputs, before, now) == expected


@given(st.dictionaries(st.text(), _TREES), st.dictionaries(st.text(), _TREES))
def test_a_live_object_that_did_not_change_is_no_drift(
    inputs: dict[str, Any], live: dict[str, Any]
) -> None:
    assert drifted(inputs, live, live) == inputs
