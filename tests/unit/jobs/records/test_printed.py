"""What was printed is found in a kept log, by `metrics` and for a gate that lacks a number."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.records.archive import Run
from jobs.records.events import added, likeness, unreported
from jobs.result import RunResult
from tests.unit.anything import LINES
from tests.unit.archived_run import line
from tests.unit.images.objects import Listener

_SUCCESS = RunResult(state="Succeeded", duration_seconds=1.0)
_WARN = Listener().warn


def kept(directory: Path, *lines: str, replica: int = 0) -> Run:
    text = "".join(line(second, each) for second, each in enumerate(lines))
    (directory / f"{replica}-abc.log").write_text(text, errors="replace")
    return Run(directory)


def suggested(text: str, name: str) -> str:
    """Return the pattern that a text proposes for the stack's file."""
    known = yaml.safe_load(re.search(r"`metrics: (.*)`$", text)[1])  # type: ignore[index]
    pattern = known[name]
    assert isinstance(pattern, str)
    return pattern


@pytest.mark.parametrize(
    ("name", "printed", "shown"),
    [
        ("f1", "a: f1=0.9", "f1=0.9: add `metrics: {f1: 'f1=([0-9.]+)'}`"),
        ("accuracy", "INFO eval:\tTest Accuracy:  97.5%", "Test Accuracy:  97.5"),
        ("accuracy", "step 3 acc 0.5", "acc 0.5"),
        ("accuracy", "train acc 0.9, val_acc 0.8 at 9 images/s", "val_acc 0.8"),
        ("val_loss", "iter 5 train loss 2.1 val loss 1.3", "val loss 1.3"),
        ("val_loss", "\r8/9 [9.1it/s, loss=0.5]\r9/9 [9.1it/s, loss=0.25]", "loss=0.25"),
        ("loss", '{"loss": -1.5e-3, "lr": 0.1}', 'loss": -1.5e-3'),
        ("perplexity", "loss=0.5", ""),
    ],
)
def test_numbers_come_with_a_pattern(name: str, printed: str, shown: str, tmp_path: Path) -> None:
    text = likeness(kept(tmp_path, "begins", printed, "ends"), name)
    assert text.startswith(shown)
    assert bool(text) == bool(shown)
    if text:
        [number] = re.findall(r"[-+.0-9e]+(?=: add)", text)
        found = added(_SUCCESS, Run(tmp_path), {name: suggested(text, name)}, _WARN)
        assert found.figure(name) == float(number)


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ({}, "test acc 0.5: add `metrics: {accuracy: 'test acc ([0-9.]+)'}`"),
        ({"metrics": {"f1": 0.5}}, ""),
        ({"loss": 0.5}, ""),
        ({"state": "Failed"}, ""),
    ],
)
def test_a_run_that_reported_nothing_has_the_entry_for_what_it_printed(
    reported: dict[str, Any], shown: str, tmp_path: Path
) -> None:
    run = kept(tmp_path, "loss=0.25", "Epoch 1, test acc 0.5")
    assert unreported(run, replace(_SUCCESS, **reported)) == shown


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.lists(st.from_regex(r"\A[A-Za-z_][\w./-]{0,8}\Z"), min_size=1, max_size=3),
    between=st.sampled_from(["=", ": ", " = ", "  ", "':\t", '": ']),
    number=st.floats(0, 1e6).map(lambda each: f"{each:.4f}"),
    others=st.lists(LINES, max_size=3),
)
def test_what_is_proposed_finds_the_number(
    words: list[str], between: str, number: str, others: list[str], tmp_path: Path
) -> None:
    """In the same log, whatever else is in it, as the stack's file has it."""
    printed = f"{' '.join(words)}{between}{number}"
    name = re.sub(r"\W", "_", "_".join(words))
    others = [each.replace("\n", " ") for each in others]
    text = likeness(kept(tmp_path, *others, printed), name)
    found = added(_SUCCESS, Run(tmp_path), {name: suggested(text, name)}, _WARN)
    assert found.figure(name) == float(number)


def test_a_long_log_of_words_is_searched_in_moments(tmp_path: Path) -> None:
    run = kept(tmp_path, *["word " * 50_000, "w" * 250_000, "a.b-c/" * 40_000] * 3, "accuracy 1")
    assert likeness(run, "accuracy").startswith("accuracy 1")


def test_log_patterns_add_missing_and_requested_metrics(tmp_path: Path) -> None:
    run = kept(tmp_path, "epoch 0 acc=0.5 f1=0.1", "epoch 1 acc=0.75 f1=0.2")
    kept(tmp_path, "acc=0.1", replica=1)
    patterns = {"epoch": r"epoch (\d+)", "accuracy": "acc=([0-9.]+)", "f1": "f1=([0-9.]+)"}
    own = RunResult(state="Succeeded", duration_seconds=1.0, metrics={"f1": 9.0})
    found = added(own, run, patterns, _WARN)
    assert (found.accuracy, found.metrics) == (0.75, {"f1": 9.0})
    assert found.epoch_metrics == {"accuracy": [0.5, 0.75]}
    assert found.epoch_accuracies == [0.5, 0.75]
    assert added(_SUCCESS, run, {"accuracy": "acc=([0-9.]+)"}, _WARN).metrics is None
    assert added(own, run, patterns, _WARN, ["f1"]).metrics == {"f1": 0.2}
    failed = RunResult(state="Failed")
    assert added(failed, run, patterns, _WARN) == failed
    assert added(own, Run(tmp_path / "gone"), patterns, _WARN) == own


def test_an_impossible_search_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Listener()
    monkeypatch.setattr("jobs.records.events._SECONDS", 0.0)
    run = kept(tmp_path, "acc=0.5")
    assert added(_SUCCESS, run, {"accuracy": "acc=(.*)"}, row.warn) == _SUCCESS
    [warning] = row.lines
    assert "was not searched for `metrics`" in warning
