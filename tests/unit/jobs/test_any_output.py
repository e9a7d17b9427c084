"""A result is one form everywhere, and nothing that a program prints or leaves breaks it.

Nor does it break a wait, a record or a report.
"""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.paths import CHECKOUT
from infra.provider.engine import plain_map, wrap_map
from jobs.api.follower import Container
from jobs.api.lines import Line
from jobs.model.pytorchjob import Topology
from jobs.observe.log_ends import LogEnds
from jobs.observe.outcome import details, result
from jobs.observe.progress import Progress
from jobs.observe.run_state import RunState
from jobs.records import archive
from jobs.records.archive import COMPLETE, Run, entries
from jobs.records.history import History, epochs
from jobs.records.recording import Recording
from jobs.result import End, FailureDetails, RunResult, TrainingReport, explain
from scripts.cli.runs import results
from scripts.cli.runs.logs import Printer, print_runs
from scripts.cli.runs.report import page
from tests.unit.anything import LINES, NUMBERS, VALUES, text
from tests.unit.archived_run import line, made, rank_log, remembered
from tests.unit.jobs_objects import declared, ended, job, pod, summary
from tests.unit.scripts.cli.runs import made_page
from tests.unit.scripts.cli.runs.made_page import RUN, SUCCEEDED

_FIELDS = [
    *("accuracy", "loss", "epoch_accuracies", "class_accuracies", "backend", "goal_reached"),
    *("samples_seen", "duration_seconds", "step_seconds", "artifacts", "metrics", "torch"),
    *("epoch_metrics", "rank", "error", "tracking", "time_to_accuracy_seconds", "val_loss"),
]
_MESSAGES = (
    st.fixed_dictionaries({}, optional=dict.fromkeys(_FIELDS, NUMBERS | VALUES)).map(text) | LINES
)
_ONCE = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_EPOCHS = st.fixed_dictionaries(
    {"epoch": VALUES, "accuracy": NUMBERS | VALUES, "samples_per_second": NUMBERS},
    optional={"seconds_in": VALUES | st.dictionaries(st.text(), NUMBERS)},
)
_RECORDS = st.fixed_dictionaries(
    {"run_id": st.just(RUN) | VALUES, "submitted": st.just("") | VALUES},
    optional={
        "provenance": VALUES | st.fixed_dictionaries({"settings": VALUES, "revision": VALUES}),
        "result": VALUES | st.fixed_dictionaries({"state": VALUES, "completed": VALUES}),
        "epochs": st.lists(VALUES | _EPOCHS, max_size=3),
    },
)


@given(st.lists(LINES, max_size=6))
def test_any_line_is_a_line_of_a_runs_log(lines: list[str]) -> None:
    progress = Progress(2)
    for each in lines:
        progress.see(each)
    # gRPC, and so the engine, takes UTF-8 alone.
    str(progress).encode()
    for event in ('{"event": {"type": "push"}}', "[" * 3000):
        progress = Progress(1)
        progress.see(event)
        assert str(progress).startswith("last line: " + event[:20]), "JSON that is no event"


def ended_with(message: str, code: int = 0) -> RunResult:
    run = RunState(job("Succeeded" if code == 0 else "Failed", workers=0))
    run.see_pods([pod(0, state=ended(code, message, container="containerd://c"))])
    logs = LogEnds(run, Run(Path("/nowhere")))
    end = End("Succeeded" if code == 0 else "Failed", "")
    failure = None if code == 0 else details(end, logs, (), declared())
    return result(end, run, "2026-01-01T01:00:00Z", failure)


@given(_MESSAGES, st.sampled_from([0, 1, 137]))
def test_any_message_leaves_a_result_that_a_state_can_hold(message: str, code: int) -> None:
    """The engine's JSON and docs/results.md hold it, and nothing is another value afterwards."""
    found = ended_with(message, code)
    known = found.as_map()
    json.dumps(known, allow_nan=False, ensure_ascii=False).encode()
    assert RunResult.from_map(known) == found
    assert RunResult.from_map(plain_map(wrap_map(known))).as_map() == known
    assert str(found)
    assert explain("mine", found)


@given(VALUES, st.dictionaries(st.sampled_from(["failure", "metrics", "reason"]), VALUES))
def test_a_result_of_any_state_is_read(value: Any, more: dict[str, Any]) -> None:
    known = RunResult.from_map({"state": "Failed", "accuracy": value, **more})
    json.dumps(known.as_map(), allow_nan=False)
    of_another_version = {"state": "Succeeded", "reason": "", "of_the_future": value}
    assert RunResult.from_map(of_another_version) == RunResult(state="Succeeded")


def test_what_a_result_cannot_hold_is_left_out_and_named() -> None:
    odd = summary(0, accuracy=float("nan"), val_loss=float("inf"), torch=2)
    found = ended_with(json.dumps({**odd, "epoch_accuracies": [0.5, float("nan")]}))
    assert (found.accuracy, found.metrics, found.torch) == (None, {}, None)
    assert found.epoch_accuracies == [0.5]
    nan = dict.fromkeys(("accuracy", "epoch_accuracies", "epoch_metrics.accuracy"), "NaN")
    assert found.left_out == {**nan, "torch": "2", "metrics.val_loss": "Infinity"}


@_ONCE
@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=3))
def test_logs_with_any_lines_are_read(logs: list[str], happened: list[str]) -> None:
    """Stored logs, timelines and records that can't be read end no command."""
    run = archive.of_job("dev", "mine").run(RUN)
    run = run if run.logs() else made([rank_log(0)])
    encoded = "".join(line(number, each) for number, each in enumerate(logs))
    run.log(0, "c0").path.write_bytes(encoded.encode(errors="surrogatepass"))
    run.timeline.write_bytes("\n".join(happened).encode(errors="surrogatepass"))
    assert len(epochs(run)) <= len(logs)
    entries(run.timeline)
    remembered(RUN, SUCCEEDED).unlink()
    remembered(RUN, SUCCEEDED)
    page("dev", [made_page.job()]).encode()


@_ONCE
@given(_RECORDS.map(text) | LINES)
def test_a_history_with_any_records_is_read(record: str) -> None:
    file = remembered(RUN, SUCCEEDED)
    file.write_bytes(record.encode(errors="surrogatepass"))
    for each in History(archive.of_job("dev", "mine")).records():
        json.dumps(each.provenance)
    page("dev", [made_page.job()]).encode()


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40 + b"\n2026-99-01T00:00:00.000000000Z x\n"
                     b"0000-01-01T00:00:00.000000000+23:59 x\n")  # fmt: skip


@pytest.mark.parametrize("spoil", [_directory, _garbage, Path.unlink])
def test_an_unreadable_run_ends_no_command(spoil: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`up` warns and goes on; `logs`, `results` and `report` show what else there is."""
    run = made([rank_log(0), rank_log(1)])
    record = remembered(RUN, SUCCEEDED)
    names = ("run.json", "timeline.jsonl", COMPLETE)
    for path in (run.log(0, "c0").path, record, *(run.directory / each for each in names)):
        spoil(path)
    for odd in ("x-y.log", "-.log", f"{'9' * 200}-a.log"):
        (run.directory / odd).write_bytes(b"\xff")
    warned: list[str] = []
    with Recording(run, Topology(2), warned.append) as recording:
        for replica in (0, 1):
            container = Container(replica, "mine", f"c{replica}", ended=True, previous=False)
            recording.begin(container)
            recording.take(container, [Line("2026-01-01T00:09:00.000000000Z", "more")])
    print_runs(Printer({0: "rank 0", 1: "rank 1"}, raw=False), [run], {})
    assert "epoch" in capsys.readouterr().out
    found = made_page.job()
    assert "epoch" in page("dev", [found])
    results.print_results("dev", {"mine": found["outcome"]}, {}, "mine", "text")
    assert [each for each in warned if "The run continues" not in each] == []


DOCUMENT = CHECKOUT / "docs/results.md"
_OF_A_RANK = {
    *("rank", "world_size", "samples_seen", "total_samples_seen", "duration_seconds", "tracking")
}
"""Fields of a rank's message that a job's result has as a sum, the first or another figure."""
_NAME = re.compile(r"`(\w+)`")


def names(of: type) -> set[str]:
    return {each.name for each in fields(of)}


def section(title: str) -> str:
    return DOCUMENT.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def listed(title: str) -> set[str]:
    """Return the names in the first column of a section's table."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in _NAME.findall(row.split("|")[1])}


def test_the_documentation_lists_each_field_of_a_result_and_no_other() -> None:
    assert listed("A job's result") == names(RunResult) - {"failure"}
    told = set(_NAME.findall(section("A job's result")))
    assert names(FailureDetails) - told <= {"stacks", "followers"}
    assert listed("How a result travels") == names(TrainingReport) | _OF_A_RANK


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"state": "TimedOut", "reason": "too late"}, "TimedOut: too late"),
        ({"duration_seconds": 9, "accuracy": 0.98}, "Succeeded in 9 s, accuracy 0.98"),
        ({"duration_seconds": 9, "resumed_step": 500}, "Succeeded in 9 s, resumed from step 500"),
    ],
)
def test_a_result_in_one_line(known: dict[str, Any], line: str) -> None:
    assert str(RunResult(**{"state": "Succeeded", **known})) == line
