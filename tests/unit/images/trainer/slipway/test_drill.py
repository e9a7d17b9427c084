"""A rank's program kills itself at its job's drill, and only once in its pod."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT
from slipway.drill import step_of

_STEPS = """
import slipway
for step in range(1, 6):
    slipway.log(step=step, loss=1 / step)
"""


@pytest.mark.parametrize(
    ("event", "step"),
    [
        ({"event": "step", "epoch": 3, "step": 4, "steps": 10}, 24),
        ({"event": "step", "epoch": 3, "step": 4}, 4),
        ({"event": "metrics", "step": 7, "metrics": {}}, 7),
        ({"event": "metrics", "step": True}, None),
        ({"event": "metrics", "epoch": 1}, None),
        ({"event": "validation", "step": 7}, None),
        ({"event": "step", "epoch": 0, "step": 4, "steps": "10"}, 4),
    ],
)
def test_steps_count_over_all_epochs(event: dict[str, Any], step: int | None) -> None:
    assert step_of(event) == step


def run(tmp_path: Path, drill: str) -> tuple[int, list[str]]:
    """Return how rank 1's program ended, and the events that it reported."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT / "images/trainer"),
        "RANK": "1",
        "SLIPWAY_DRILL": drill,
        "SLIPWAY_ROOT": str(tmp_path),
    }
    (tmp_path / "tmp").mkdir(exist_ok=True)
    ended = subprocess.run(
        [sys.executable, "-c", _STEPS], env=environment, capture_output=True, check=False
    )
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.returncode, [f"{each['event']} {each['step']}" for each in events]


def test_the_program_is_killed_once_when_it_has_reported_the_step(tmp_path: Path) -> None:
    steps = [f"metrics {step}" for step in range(1, 6)]
    assert run(tmp_path, "1 3") == (-signal.SIGKILL, [*steps[:3], "drilled 3"])
    assert run(tmp_path, "1 3") == (0, steps)


@pytest.mark.parametrize("drill", ["0 3", "11 3", "1 6"])
def test_another_rank_and_a_later_step_are_left_alone(tmp_path: Path, drill: str) -> None:
    assert run(tmp_path, drill)[0] == 0
