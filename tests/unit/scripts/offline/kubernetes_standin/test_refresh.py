"""What a refresh makes of the inputs when the live object has moved away from them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.offline.kubernetes_standin.refresh import drifted

_LEAVES = st.none() | st.booleans() | st.integers() | st.text()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


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
