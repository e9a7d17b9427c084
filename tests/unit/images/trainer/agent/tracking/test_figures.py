"""What a tracking server gets of a rank's events."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.events import json_map, reported
from slipway_trainer.agent.tracking.figures import Figures, parameters, tags
from tests.unit.anything import LINES, VALUES, text

_TIME = "2026-11-25T10:00:00.250+00:00"


def event(kind: str, rank: int = 0, **values: Any) -> dict[str, Any]:
    return {"event": kind, "rank": rank, "time": _TIME, **values}


def of(figures: Figures, *events: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """Return each metric's step and value."""
    return {
        point.name: (point.step, point.value) for each in events for point in figures.points(each)
    }


def test_without_an_epochs_length_the_epochs_before_count() -> None:
    figures = Figures()
    for count in (30, 20):
        figures.points(event("epoch", epoch=1, steps=count, seconds=1.0))
    assert of(figures, event("step", epoch=3, step=4, loss=1.0)) == {"loss/rank_0": (55, 1.0)}


def test_what_all_ranks_found_is_sent_once_and_each_ranks_own_times_by_its_rank() -> None:
    common = {"accuracy": 0.97, "test_loss": 0.1, "class_accuracies": {"T-shirt/top": 0.8}}
    own = {"rank_loss": 0.2, "seconds": 3.0, "seconds_in": {"data": 0.1}}
    of_all = {"accuracy": (118, 0.97), "test_loss": (118, 0.1), "loss/all_ranks": (118, 0.3)}
    of_all["class_accuracy/T-shirt_top"] = (118, 0.8)
    of_one = {"rank_loss": (118, 0.2), "seconds": (118, 3.0), "seconds_in/data": (118, 0.1)}
    for rank, once in ((0, of_all), (1, {})):
        found = of(
            Figures(),
            event("validation", rank, epoch=1, step=118, **common),
            event("epoch", rank, epoch=1, steps=118, loss=0.3, **common, **own),
        )
        assert found == {**once, **{f"{name}/rank_{rank}": of_one[name] for name in of_one}}


def test_a_programs_own_numbers_go_by_their_names_and_by_its_own_steps() -> None:
    logged = {"val_loss": 0.31, "grad norm (mean)": 2}
    assert of(Figures(), event("metrics", epoch=2, step=700, metrics=logged)) == {
        "val_loss": (700, 0.31), "grad norm _mean_": (700, 2.0)
    }  # fmt: skip
    found = of(Figures(), event("metrics", 1, epoch=2, metrics={"val_loss": 0.4}))
    assert found == {"val_loss/rank_1": (2, 0.4)}


def test_what_only_the_termination_message_says_is_sent_at_the_end() -> None:
    figures = Figures()
    of(figures, event("metrics", step=9, metrics={"val_loss": 0.31}))
    message = {"rank": 0, "metrics": {"val_loss": 0.31, "perplexity": 12.5}, "accuracy": 0.9}
    points = figures.finals(message, time=1)
    assert [(p.name, p.value, p.step) for p in points] == [
        ("accuracy", 0.9, 9), ("perplexity", 12.5, 9)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        event("step", epoch=1, step="x", loss=1.0),
        event("step", epoch=1, step=0, loss=float("nan")),
        {**event("metrics", metrics={"a": 1}), "time": "yesterday"},
    ],
)
def test_what_is_no_figure_is_left_out(odd: dict[str, Any]) -> None:
    assert Figures().points(odd) == []


@given(st.lists(LINES, max_size=8), VALUES)
def test_of_any_line_or_message_what_is_right_is_sent(lines: list[str], message: Any) -> None:
    figures = Figures()
    events = [reported(line) for line in lines]
    points = [point for each in events for point in figures.points(each)]
    points += figures.finals(json_map(text({"metrics": message, "accuracy": message})), 1)
    assert all(math.isfinite(each.value) and type(each.step) is int for each in points)
    for each in events:
        json.dumps([parameters(each), tags(each)])
