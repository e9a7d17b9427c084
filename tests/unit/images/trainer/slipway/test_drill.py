"""A rank's program kills itself at a step of its job's drill."""

from typing import Any

import pytest

from slipway.drill import step_of


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
