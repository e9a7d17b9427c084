"""What the processes of a pod leave behind, made into one message that fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_trainer.agent import processes


def _leave(directory: Path, name: str, message: dict[str, Any]) -> None:
    (directory / f"{name}.json").write_text(json.dumps(message))


def test_a_pod_says_what_its_lowest_rank_said_with_the_samples_of_all(tmp_path: Path) -> None:
    for rank in (10, 9):
        _leave(tmp_path, str(rank), {"rank": rank, "accuracy": 0.5, "samples_seen": rank})
    assert processes.merged(tmp_path, 0, 2) == {"rank": 9, "accuracy": 0.5, "samples_seen": 19}


def test_a_process_that_left_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("no JSON")
    _leave(tmp_path, "1", {"rank": 1})
    assert processes.merged(tmp_path, 0, 2) == {"rank": 1}
    assert processes.merged(tmp_path / "empty", 0, 2) == {}


@pytest.mark.parametrize(
    "silent", [{"rank": 1}, {"samples_seen": "many"}, {"samples_seen": [1]}, None]
)
def test_the_samples_are_left_out_when_a_process_does_not_tell_its_own(
    tmp_path: Path, silent: dict[str, Any] | None
) -> None:
    _leave(tmp_path, "0", {"rank": 0, "accuracy": 0.5, "samples_seen": 100})
    if silent is not None:
        _leave(tmp_path, "1", silent)
    assert processes.merged(tmp_path, 0, 2) == {"rank": 0, "accuracy": 0.5}


def test_after_a_failure_it_is_the_message_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    _leave(tmp_path, "0", {"rank": 0, "error": "connection closed by peer"})
    _leave(tmp_path, "first-failure", {"rank": 1, "error": "ValueError: x"})
    assert processes.merged(tmp_path, 1, 2) == {"rank": 1, "error": "ValueError: x"}


def test_without_any_message_a_failure_names_the_exit_code_or_the_signal(tmp_path: Path) -> None:
    assert "exited with code 3" in processes.merged(tmp_path, 3, 2)["error"]
    assert "was ended by SIGKILL" in processes.merged(tmp_path, 137, 2)["error"]
