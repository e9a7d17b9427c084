"""How changes are told to the engine, which shows them in a preview."""

import pytest
from pulumi.provider.experimental.provider import PropertyDiffKind

from core.handler import Change
from infra.provider.provider import response


@pytest.mark.parametrize(
    ("change", "kind", "input_diff"),
    [
        (Change("a", "add"), PropertyDiffKind.ADD, True),
        (Change("a", "update"), PropertyDiffKind.UPDATE, True),
        (Change("a", "delete"), PropertyDiffKind.DELETE, True),
        (Change("a", "add", replace=True), PropertyDiffKind.ADD_REPLACE, True),
        (Change("a", "update", replace=True), PropertyDiffKind.UPDATE_REPLACE, True),
        (Change("a", "delete", replace=True), PropertyDiffKind.DELETE_REPLACE, True),
        (Change("a", drift=True), PropertyDiffKind.UPDATE, False),
    ],
)
def test_each_change_keeps_its_kind(
    change: Change, kind: PropertyDiffKind, *, input_diff: bool
) -> None:
    detail = response([change]).detailed_diff
    assert detail is not None
    assert (detail["a"].kind, detail["a"].input_diff) == (kind, input_diff)


def test_only_what_asks_for_it_replaces() -> None:
    found = response([Change("spec.a"), Change("spec.b", replace=True)])
    assert found.changes
    assert found.replaces == ["spec.b"]
    assert found.delete_before_replace
    # The properties are named, and their paths are whole.
    assert {*found.diffs} == {"spec"}
    assert found.detailed_diff is not None
    assert [*found.detailed_diff] == ["spec.a", "spec.b"]


def test_no_change_is_none() -> None:
    found = response([])
    assert not found.changes
    assert found.replaces == []
