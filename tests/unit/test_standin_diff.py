"""What the stand-in calls a change, and a change that replaces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.differ import changes
from scripts.offline.kubernetes_standin.drift import as_inputs, drifted
from scripts.offline.kubernetes_standin.immutable import fixed_fields
from scripts.offline.kubernetes_standin.paths import parse, render
from scripts.offline.kubernetes_standin.planning import is_same_place, plan, without_ignored
from scripts.offline.kubernetes_standin.settings import Settings

_LEAVES = st.none() | st.booleans() | st.integers() | st.text()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_STEPS = st.lists(
    st.text(st.characters(exclude_characters="\\"), min_size=1) | st.integers(0, 99), min_size=1
)


def _obj(kind: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}


def _plan(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    found = plan(old, new, Settings(), namespaced=True)
    return {
        render(change.path): change.kind + ("-replace" if change.replace else "")
        for change in found
    }


@given(_STEPS)
def test_a_path_is_read_as_it_was_written(steps: list[str | int]) -> None:
    assert parse(render(steps)) == tuple(steps)


def test_a_text_that_is_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="no property path"):
        parse("spec[")


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
    found = {render(change.path): change.kind for change in changes(old, new, ())}
    assert found == expected


@pytest.mark.parametrize(
    ("kind", "api_version", "old", "new", "expected"),
    [
        ("ConfigMap", "v1", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        ("Secret", "v1", {"stringData": {"a": "1"}}, {"stringData": {}}, "stringData.a"),
        ("Service", "v1", {"spec": {}}, {"spec": {"clusterIP": "None"}}, "spec.clusterIP"),
        ("Service", "v1", {}, {"spec": {"clusterIP": "None"}}, "spec"),
        ("Job", "batch/v1", {"spec": {"template": {"a": 1}}}, {"spec": {}}, "spec.template"),
        (
            "Pod",
            "v1",
            {"spec": {"containers": [{"image": "a"}]}},
            {"spec": {"containers": [{"image": "b"}]}},
            "spec.containers[0].image",
        ),
        (
            "RoleBinding",
            "rbac.authorization.k8s.io/v1",
            {"roleRef": {"name": "a"}},
            {"roleRef": {"name": UNKNOWN}},
            "roleRef.name",
        ),
    ],
)
def test_a_field_that_cannot_change_in_place_replaces(
    kind: str, api_version: str, old: dict[str, Any], new: dict[str, Any], expected: str
) -> None:
    found = _plan(_obj(kind, api_version, **old), _obj(kind, api_version, **new))
    assert [path for path, how in found.items() if how.endswith("-replace")] == [expected]


def test_other_fields_change_in_place() -> None:
    old = _obj("Deployment", "apps/v1", spec={"replicas": 1, "selector": {"a": "b"}})
    new = _obj("Deployment", "apps/v1", spec={"replicas": 2, "selector": {"a": "b"}})
    assert _plan(old, new) == {"spec.replicas": "update"}


def test_a_config_map_that_may_change_is_not_replaced_unless_it_says_immutable() -> None:
    obj = _obj("ConfigMap")
    assert ("data",) not in fixed_fields(obj, config_map_mutable=True, secret_mutable=False)
    frozen = {**obj, "immutable": True}
    assert ("data",) in fixed_fields(frozen, config_map_mutable=True, secret_mutable=False)


def test_another_name_namespace_kind_or_group_replaces() -> None:
    old = _obj("Ingress", "extensions/v1beta1")
    moved = {**_obj("Gateway", "networking/v1"), "metadata": {"name": "y", "namespace": "z"}}
    assert _plan(old, moved) == {
        "apiVersion": "update-replace",
        "kind": "update-replace",
        "metadata.name": "update-replace",
        "metadata.namespace": "update-replace",
    }
    assert _plan(old, {**old, "apiVersion": "extensions/v1"}) == {"apiVersion": "update"}


def test_the_default_namespace_may_be_written_or_not() -> None:
    written = {**_obj("ConfigMap"), "metadata": {"name": "x", "namespace": "default"}}
    assert _plan(_obj("ConfigMap"), written) == {}


def test_ignored_paths_hide_what_is_below_them() -> None:
    found = changes({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, ())
    assert [change.path for change in without_ignored(found, ["a.b"])] == [("a", "c")]
    assert without_ignored(found, ["a"]) == []


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "x", "namespace": "n"}, True),
        ({"name": "y", "namespace": "n"}, False),
        ({"name": "x", "namespace": "m"}, False),
        ({"name": "x", "namespace": "n", "annotations": {"pulumi.com/autonamed": "true"}}, False),
        ({}, False),
    ],
)
def test_only_an_object_that_keeps_its_given_name_is_deleted_first(
    metadata: dict[str, Any], expected: bool
) -> None:
    assert is_same_place({**_obj("ConfigMap"), "metadata": metadata}, "n/x") is expected


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
        # A Secret's stringData, which the server keeps as data.
        ({"stringData": {"p": "x"}}, {"data": {"p": "eA=="}}, {"data": {"p": "eA=="}}, None),
        (
            {"stringData": {"p": "x"}},
            {"data": {"p": "eA=="}},
            {"data": {"p": "eQ=="}},
            {"stringData": {"p": "y"}},
        ),
    ],
)
def test_drift_is_what_changed_on_the_cluster(
    given_inputs: dict[str, Any],
    before: dict[str, Any],
    now: dict[str, Any],
    expected: dict[str, Any] | None,
) -> None:
    assert drifted(given_inputs, before, now) == (given_inputs if expected is None else expected)


@given(st.dictionaries(st.text(), _TREES), st.dictionaries(st.text(), _TREES))
def test_a_live_object_that_did_not_change_is_no_drift(
    inputs: dict[str, Any], live: dict[str, Any]
) -> None:
    assert drifted(inputs, live, live) == inputs


def test_an_imported_object_keeps_what_a_person_could_have_written() -> None:
    live = _obj("ConfigMap", data={"a": "b"}, status={})
    live["metadata"] |= {
        "uid": "1",
        "resourceVersion": "2",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
    }
    assert as_inputs(live) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "annotations": {"mine": "1"}},
        "data": {"a": "b"},
    }
