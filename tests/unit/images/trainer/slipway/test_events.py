"""Who a process is, by what its environment says, and what a line or an event reports."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.records.events import event_in
from slipway.drill import step_of
from slipway.events import json_map, own_index, own_rank, reported
from tests.unit.anything import EVENTS, LINES, ODD, VALUES, text

_POD = {"PET_RDZV_ENDPOINT": "digits-worker-0:23456", "HOSTNAME": "digits-worker-2"}


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        (_POD, 2),
        ({"SLIPWAY_ELASTIC_PEERS": "a:1,b:1", "SLIPWAY_ELASTIC_INDEX": "1"}, 1),
        ({}, 0),
        ({"HOSTNAME": "a-b"}, 0),
    ],
)
def test_its_index_is_its_rank_unless_it_is_given_one(
    environment: dict[str, str], index: int
) -> None:
    assert own_index(environment) == own_rank({**environment, "RANK": ""}) == index
    assert own_rank({**environment, "RANK": "5"}) == 5


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ('{"event": "step", "loss": 1}\n', {"event": "step", "loss": 1}),
        ('epoch 1:  10% 3/30 {"event": "step"}\n', {"event": "step"}),
        ('{"event": "a", "of": {"event": "b"}}', {"event": "a", "of": {"event": "b"}}),
        ('{"no": "event"}', {"no": "event"}),
        ('3/30 {"no": "event"}', {}),
        ('{"event": "metr', {}),
        ('{"event": "step"} and more', {}),
        ("", {}),
    ],
)
def test_an_event_is_read_wherever_its_line_begins(line: str, event: dict[str, Any]) -> None:
    assert reported(line) == event_in(line) == event


@given(LINES)
def test_any_line_is_read_in_the_image_as_on_the_machine_that_waits(line: str) -> None:
    """There an event is without fields of another type."""
    assert event_in(line).keys() <= reported(line).keys()


@given(EVENTS.map(text) | VALUES.map(text) | st.sampled_from(ODD) | st.text())
def test_any_text_is_read_and_what_it_holds_can_be_written_again(written: str) -> None:
    json.dumps(json_map(written), ensure_ascii=False).encode()


def test_odd_numbers_are_read_as_numbers_and_what_is_no_map_as_an_empty_one() -> None:
    assert math.isnan(reported('{"event": "step", "loss": NaN}')["loss"])
    digits = "9" * 5000
    assert json_map(f'{{"a": {digits}, "b": -{digits}, "d": 1234567890123456789}}') == {
        "a": float("inf"), "b": -float("inf"), "d": 1234567890123456789.0
    }  # fmt: skip
    for written in (*ODD[:3], "[1]", '{"a"'):
        assert json_map(written) == {}


@pytest.mark.parametrize(
    ("event", "step"),
    [
        ({"event": "step", "epoch": 3, "step": 4, "steps": 10}, 24),
        ({"event": "step", "epoch": 3, "step": 4}, 4),
        ({"event": "metrics", "step": 7, "metrics": {}}, 7),
        ({"event": "metrics", "step": True}, None),
        ({"event": "validation", "step": 7}, None),
        ({"event": "step", "epoch": 0, "step": 4, "steps": "10"}, 4),
    ],
)
def test_steps_count_over_all_epochs(event: dict[str, Any], step: int | None) -> None:
    assert step_of(event) == step
