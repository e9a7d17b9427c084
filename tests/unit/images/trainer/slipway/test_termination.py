"""A rank's termination message: where it goes, and what of it 4 KB can hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway import termination
from slipway.events import json_map
from tests.unit.anything import ODD, TEXTS, VALUES, text


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
    for local in ("1", "0", "2"):
        monkeypatch.setenv("LOCAL_RANK", local)
        termination.leave({"rank": int(local)})
    assert json.loads(message.read_text()) == {"rank": 0}
    monkeypatch.setenv("SLIPWAY_MESSAGE_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    termination.leave({"rank": 3})
    assert termination.read(tmp_path / "3.json") == {"rank": 3}


_ARTIFACTS = {
    name: {"url": f"file:///results/{name}", "sha256": "0" * 64, "bytes": 1}
    for name in ("artifacts.json", *(f"model-{number}.pt" for number in range(100)))
}


def test_a_long_message_loses_its_least_important_parts() -> None:
    trace = "outer\n" * 2000 + "inner"
    cut = termination.fit({"traceback": trace, "artifacts": _ARTIFACTS, "error": "x"})
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
