"""What programs may print or leave: JSON of any shape, lines, messages, and files that are none."""

import json
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    st.integers()
    | st.integers(min_value=10**300, max_value=10**4000)
    | st.floats()
    | st.sampled_from([2**53 + 1, -(10**400), 1e308, 5e-324])
)
TEXTS = (
    st.text(st.characters(), max_size=8)
    | st.text(st.characters(categories=["Cs", "Cc"]), max_size=3)
    | st.sampled_from(["0", "2026-01-01T00:00:09Z", "0001-01-01T00:00:00+23:59", "NaN", ""])
)
_SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
_KINDS = ["started", "step", "epoch", "metrics", "validation", "summary", "goal_reached"]
_FIELDS = [
    *("rank", "time", "epoch", "epochs", "step", "steps", "samples", "loss", "accuracy"),
    *("samples_per_second", "metrics", "seconds_in", "summary", "rank_loss", "seconds"),
    *("class_accuracies", "time_to_accuracy_seconds", "test_loss"),
]
_RIGHT = {
    "rank": st.integers(0, 2),
    "time": st.just("2026-01-01T00:00:09Z"),
    "metrics": st.dictionaries(TEXTS, NUMBERS, max_size=3),
    "seconds_in": st.dictionaries(TEXTS, NUMBERS, max_size=3),
}
EVENTS = st.builds(
    lambda kind, fields: {"event": kind, **fields},
    st.sampled_from(_KINDS) | VALUES,
    st.fixed_dictionaries(
        {}, optional={name: _RIGHT.get(name, st.integers(0, 3)) | VALUES for name in _FIELDS}
    ),
)
"""Some are right, so that what follows a right field is reached as well."""
ODD = [
    "[" * 3000,
    '{"event": ' * 900 + "1" + "}" * 900,
    '{"event": ' + "[" * 990 + "]" * 990 + "}",
    '{"event": "step", "epoch": ' + "9" * 5000 + "}",
    '{"event": "epoch", "epoch": 1, "rank": 0, "loss": ' + "9" * 400 + "}",
    '{"event": "metrics", "metrics": {"\\ud800": 1, "a\\u0000": 1e999}, "rank": 0}',
    "[rank" + "1" * 5000 + "]: x",
    "null",
    '"' + "x" * 10_000,
    "\x00\ufffd\x1b[31m",
]
"""Of the kinds that JSON of any shape seldom is."""


def text(value: object) -> str:
    """Return a value as JSON, as any program may write it: its integers may be of any length."""
    return json.dumps(value, default=str)


def _decoded(printed: str) -> str:
    """Return a text as it comes from a log or a pod's status: bytes that are no UTF-8 replaced."""
    return printed.encode(errors="surrogatepass").decode(errors="replace")


LINES = EVENTS.map(text) | VALUES.map(text) | st.sampled_from(ODD) | TEXTS.map(_decoded)
