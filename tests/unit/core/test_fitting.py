"""Of any document the fields of a dataclass get what they can hold, and the rest is named."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.fitting import fitting
from tests.unit.anything import VALUES


@dataclass
class Inner:
    """What a field holds."""

    name: str | None = None


@dataclass
class Kind:
    """One field of each type."""

    word: str | None = None
    share: float | None = None
    count: int | None = None
    is_so: bool | None = None
    choice: Literal["a", "b"] | None = None
    curves: Mapping[str, Sequence[float]] | None = None
    other: Mapping[str, Any] | None = None
    inner: Inner | None = None


_DOCUMENTS = st.fixed_dictionaries({}, optional={each.name: VALUES for each in fields(Kind)})


@given(_DOCUMENTS)
def test_what_is_kept_is_strict_json_that_fits_again_as_it_is(document: dict[str, Any]) -> None:
    kept, lost = fitting(Kind, document)
    plain = {**kept, **({"inner": vars(kept["inner"])} if "inner" in kept else {})}
    json.dumps([plain, lost], allow_nan=False, ensure_ascii=False).encode()
    assert fitting(Kind, plain) == (kept, {})


@pytest.mark.parametrize(
    ("document", "kept", "lost"),
    [
        ({"share": float("nan")}, {}, {"share": "NaN"}),
        ({"share": 10**5000}, {}, {"share": "int"}),
        ({"share": True, "count": 2.0}, {"count": 2}, {"share": "true"}),
        ({"count": 1.5, "word": ["in", 1]}, {}, {"count": "1.5", "word": '["in", 1]'}),
        ({"choice": "c", "is_so": 1}, {}, {"choice": '"c"', "is_so": "1"}),
        ({"choice": "b", "word": "\ud800"}, {"choice": "b", "word": "\\ud800"}, {}),
        ({"curves": {"a": [1, float("inf"), 2], "b": 3}}, {"curves": {"a": [1, 2]}},
         {"curves.a": "Infinity", "curves.b": "3"}),
        ({"other": {"x": [{"y": float("nan"), "z": 1}]}}, {"other": {"x": [{"z": 1}]}},
         {"other.x.y": "NaN"}),
        ({"inner": {"name": 5}, "unknown": 1}, {"inner": Inner()}, {"inner.name": "5"}),
    ],
)  # fmt: skip
def test_what_a_field_cannot_hold_is_named_by_its_place(
    document: dict[str, Any], kept: dict[str, Any], lost: dict[str, str]
) -> None:
    assert fitting(Kind, document) == (kept, lost)
