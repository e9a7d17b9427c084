"""What the processes of a pod leave behind, made into one message that fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_trainer import report
from slipway_trainer.agent import messages


def _leave(directory: Path, name: str, message: dict[str, Any]) -> None:
    (directory / f"{name}.json").write_text(json.dumps(message))


def test_a_pod_says_what_its_lowest_rank_said_with_the_samples_of_all(tmp_path: Path) -> None:
    for rank in (10, 9):
        _leave(tmp_path, str(rank), {"rank": rank, "accuracy": 0.5, "samples_seen": rank})
    assert messages.merged(tmp_path, 0, 2) == {"rank": 9, "accuracy": 0.5, "samples_seen": 19}


def test_a_process_that_left_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("no JSON")
    _leave(tmp_path, "1", {"rank": 1})
    assert messages.merged(tmp_path, 0, 2) == {"rank": 1}
    assert messages.merged(tmp_path / "empty", 0, 2) == {}


@pytest.mark.parametrize("silent", [{"rank": 1}, None])
def test_the_samples_are_left_out_when_a_process_does_not_tell_its_own(
    tmp_path: Path, silent: dict[str, Any] | None
) -> None:
    _leave(tmp_path, "0", {"rank": 0, "accuracy": 0.5, "samples_seen": 100})
    if silent is not None:
        _leave(tmp_path, "1", silent)
    assert messages.merged(tmp_path, 0, 2) == {"rank": 0, "accuracy": 0.5}


def test_after_a_failure_it_is_the_message_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    _leave(tmp_path, "0", {"rank": 0, "error": "connection closed by peer"})
    _leave(tmp_path, "first-failure", {"rank": 1, "error": "ValueError: x"})
    assert messages.merged(tmp_path, 1, 2) == {"rank": 1, "error": "ValueError: x"}


def test_without_any_message_a_failure_names_the_exit_code_or_the_signal(tmp_path: Path) -> None:
    assert "exited with code 3" in messages.merged(tmp_path, 3, 2)["error"]
    assert "was ended by SIGKILL" in messages.merged(tmp_path, 137, 2)["error"]


def test_one_of_several_processes_leaves_its_message_in_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_MESSAGE_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    report.leave({"rank": 3})
    assert messages.read(tmp_path / "3.json") == {"rank": 3}


_ARTIFACTS = {
    name: {"url": f"file:///results/{name}", "sha256": "0" * 64, "bytes": 1}
    for name in ("artifacts.json", *(f"model-{number}.pt" for number in range(100)))
}


@pytest.mark.parametrize(
    ("message", "stays"),
    [
        ({"artifacts": _ARTIFACTS, "accuracy": 0.9}, {"accuracy"}),
        ({"epoch_accuracies": [0.1234] * 1000, "accuracy": 0.9}, {"accuracy", "epoch_accuracies"}),
        ({"traceback": "line\n" * 5000, "error": "x"}, {"traceback", "error"}),
        ({"traceback": "t" * 9000, "artifacts": _ARTIFACTS}, {"traceback", "artifacts"}),
        ({"error": "é" * 9000, "rank": 1}, {"error", "rank"}),
        ({"of one's own": [1] * 9000, "rank": 1}, {"rank"}),
    ],
)
def test_a_message_is_cut_to_what_the_kubelet_passes_on(
    message: dict[str, Any], stays: set[str]
) -> None:
    encoded = report.fit(message)
    assert len(encoded) <= 4096
    assert stays <= json.loads(encoded).keys()


def test_what_is_cut_is_told_elsewhere_or_matters_least() -> None:
    trace = "outer\n" * 2000 + "inner"
    cut = json.loads(report.fit({"traceback": trace, "artifacts": _ARTIFACTS, "error": "x"}))
    assert cut["traceback"].endswith("inner")
    assert next(iter(cut["artifacts"])) == "artifacts.json", "it lists all the others"
    accuracies = json.loads(report.fit({"epoch_accuracies": list(range(3000))}))
    assert accuracies["epoch_accuracies"][-1] == 2999
