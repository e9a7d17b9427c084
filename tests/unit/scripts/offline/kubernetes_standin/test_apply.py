"""Server-side apply: who manages a field, and what is left to others."""

from typing import Any

import pytest

from scripts.offline.kubernetes_standin.apply import leave
from scripts.offline.kubernetes_standin.field_manager import (
    field_manager,
    is_managed_by,
    with_owner,
    yields,
)

_URN = "urn:pulumi:dev::project::kubernetes:core/v1:ConfigMap::name"


def test_a_field_manager_is_the_same_in_every_run_and_another_for_another_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///mine")
    mine = field_manager(_URN)
    assert mine == field_manager(_URN)
    assert mine != field_manager(_URN + "2")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///yours")
    assert field_manager(_URN) != mine


def test_a_bare_object_is_marked_and_another_is_left_as_it_is() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    assert with_owner(bare, "me")["metadata"]["annotations"] == {
        "pulumi.com/patchFieldManager": "me"
    }
    labelled = {**bare, "metadata": {"name": "n", "labels": {"a": "b"}}}
    assert with_owner(labelled, "me") == labelled


def test_only_what_was_applied_is_managed_and_only_changes_by_hand_yield() -> None:
    def managed(operation: str) -> dict[str, Any]:
        return {"metadata": {"managedFields": [{"manager": "me", "operation": operation}]}}

    assert is_managed_by(managed("Apply"), "me")
    assert not is_managed_by(managed("Update"), "me")
    assert not is_managed_by(managed("Apply"), "you")
    assert yields("kubectl-edit")
    assert not yields("autoscaler")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.replicas", {"spec": {"replicas": 3}}),
        ('metadata["a.b"]', {"metadata": {"a.b": "live"}}),
        ("hooks[*].ca", {"hooks": [{"name": "1", "ca": "live"}, {"name": "2"}]}),
        ("hooks[1].name", {"hooks": [{"name": "1", "ca": ""}, {"name": "two"}]}),
        ("hooks[2].name", {}),
        ("spec.absent", {}),
    ],
)
def test_an_ignored_field_stays_as_it_is_on_the_cluster(
    path: str, expected: dict[str, Any]
) -> None:
    obj: dict[str, Any] = {
        "spec": {"replicas": 1},
        "metadata": {"a.b": "declared"},
        "hooks": [{"name": "1", "ca": ""}, {"name": "2"}],
    }
    live = {
        "spec": {"replicas": 3, "absent": True},
        "metadata": {"a.b": "live"},
        "hooks": [{"name": "one", "ca": "live"}, {"name": "two", "ca": "live"}],
    }
    assert leave(obj, live, path) == {**obj, **expected}
