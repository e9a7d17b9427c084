"""Who a process is, what a line reports, and what of a termination message 4 KB can hold."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.records.events import event_in
from slipway import termination
from slipway.drill import step_of
from slipway.events import given_rank, json_map, reported
from tests.unit.anything import EVENTS, LINES, ODD, TEXTS, VALUES, text


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({"PET_RDZV_ENDPOINT": "digits-worker-0:23456", "HOSTNAME": "digits-worker-2"}, 2),
        ({"SLIPWAY_ELASTIC_PEERS": "a:1,b:1", "SLIPWAY_ELASTIC_INDEX": "1"}, 1),
        ({}, 0),
        ({"HOSTNAME": "a-b"}, 0),
    ],
)
def test_its_index_is_its_rank_unless_it_is_given_one(
    environment: dict[str, str], index: int
) -> None:
    assert given_rank(environment) == given_rank({**environment, "RANK": ""}) == index
    assert given_rank({**environment, "RANK": "5"}) == 5


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
    found = json_map(f'{{"a": {digits}, "b": -{digits}, "d": 1234567890123456789}}')
    assert found == {"a": math.inf, "b": -math.inf, "d": 1234567890123456789.0}
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


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The container's file for its message."""
    path = tmp_path / "message"
    path.touch()
    monkeypatch.setenv("TERMINATION_LOG", str(path))
    return path


def test_a_message_that_fits_stays_and_the_log_has_a_longer_one(
    message: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    termination.leave({"rank": 0, "metrics": {"val_loss": 0.31}})
    assert json.loads(message.read_text()) == {"rank": 0, "metrics": {"val_loss": 0.31}}
    assert capsys.readouterr().out == ""
    message.write_text("")
    whole = {"rank": 2, "epoch_metrics": {"val_loss": [0.123456] * 1000}, "metrics": {"a": 1}}
    termination.leave(whole)
    left = json.loads(message.read_text())
    event = json.loads(capsys.readouterr().out)
    assert left["cut"] == ["epoch_metrics"]
    assert 0 < len(left["epoch_metrics"]["val_loss"]) < 1000
    assert (event["event"], event["rank"], event["summary"]) == ("summary", 2, whole)


def test_the_first_message_is_left_or_each_processs_own(
    message: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for local in (1, 0, 2):
        monkeypatch.setenv("LOCAL_RANK", str(local))
        termination.leave({"rank": local})
    assert json.loads(message.read_text()) == {"rank": 0}
    monkeypatch.setenv("SLIPWAY_MESSAGE_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    termination.leave({"rank": 3})
    assert termination.read(tmp_path / "3.json") == {"rank": 3}


def test_a_long_message_loses_its_least_important_parts() -> None:
    trace = "outer\n" * 2000 + "inner"
    names = ("artifacts.json", *(f"model-{number}.pt" for number in range(100)))
    artifacts = {name: {"url": f"file:///results/{name}", "sha256": "0" * 64} for name in names}
    cut = termination.fit({"traceback": trace, "artifacts": artifacts, "error": "x"})
    assert cut["traceback"].endswith("inner")
    assert cut["error"] == "x"
    assert next(iter(cut["artifacts"])) == "artifacts.json", "it lists all the others"
    cut = termination.fit({"epoch_accuracies": list(range(3000)), "own": [1] * 9000, "accuracy": 1})
    assert cut["epoch_accuracies"][-1] == 2999
    assert cut["accuracy"] == 1
    many = termination.fit({f"{number}-{'🚀' * 900}": 1 for number in range(500)})
    assert many["cut"], "of very many fields that are cut some are named"
    for each in (cut, many, termination.fit({"error": "é" * 9000})):
        assert len(json.dumps(each).encode()) <= 4096


@given(st.dictionaries(TEXTS | st.text(min_size=400, max_size=900), VALUES, max_size=40))
def test_any_message_is_cut_to_what_the_kubelet_passes_on(message: dict[str, Any]) -> None:
    fitting = termination.fit(json_map(text(message)))
    assert len(json.dumps(fitting).encode()) <= 4096


def test_a_message_keeps_what_is_right_unless_it_would_take_the_ranks_memory(
    tmp_path: Path,
) -> None:
    path, digits = tmp_path / "message", b"9" * 5000
    path.write_bytes(b'{"accuracy": 0.9, "a": "\xff", "b": ' + digits + b"}")
    assert termination.read(path) == {"accuracy": 0.9, "a": "\ufffd", "b": float("inf")}
    for left in (b"[[[[", b"\xff", ODD[0].encode(), b'{"text": "%b"}' % (b"x" * 5 * 2**20)):
        path.write_bytes(left)
        assert termination.read(path) == {}
