"""What happens to a run is kept with its times, each once, also by who takes the wait up."""

from pathlib import Path
from typing import Any

import pytest

from jobs.observe.run_state import RunState
from jobs.observe.wait import entries_of_end, entries_of_run
from jobs.records import archive
from jobs.records.archive import Timeline, entries
from jobs.result import End
from tests.unit.jobs_objects import clock, ended, job, pod, runs, warning

DONE = clock(0, 2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "timeline.jsonl"


def run(*conditions: tuple[str, str, str]) -> RunState:
    made = job()
    made["status"]["conditions"] = [
        {"type": type_, "status": status, "lastTransitionTime": at, "message": f"is {type_}"}
        for type_, status, at in conditions
    ]
    return RunState(made)


def shown(file: Path) -> list[tuple[str, str, str]]:
    return [(each["time"][-9:-1], each["kind"], each["text"]) for each in entries(file)]


def test_a_condition_keeps_the_time_at_which_it_began_to_hold(file: Path) -> None:
    created = ("Created", "True", clock(1))
    written = Timeline(file)
    written.add(entries_of_run(run(created, ("Running", "True", clock(5)))))
    later = ("Running", "False", DONE), ("Succeeded", "True", DONE)
    written.add(entries_of_run(run(created, *later)))
    assert shown(file) == [
        ("00:00:01", "condition", "Created: is Created"),
        ("00:00:05", "condition", "Running: is Running"),
        ("00:02:00", "condition", "Succeeded: is Succeeded"),
    ]


def test_a_failure_a_restart_and_the_end_are_in_the_order_of_time(file: Path) -> None:
    seen, written = run(), Timeline(file)
    seen.see_pods([runs(0), runs(1)])
    written.add(entries_of_run(seen))
    again = {"running": {"startedAt": clock(40)}}
    seen.see_pods([pod(1, state=again, last=ended(3, finished=clock(30)), restarts=1)])
    written.add(entries_of_run(seen))
    event = {**warning("Back-off", at=clock(35)), "count": 3}
    written.add(entries_of_end(End("Failed", "rank 1 exited with code 3"), DONE, [event]))
    assert shown(file)[2:] == [
        ("00:00:30", "failure", "rank 1 (mine-worker-0) exited with code 3"),
        ("00:00:35", "warning", "Failed: Back-off (3 times)"),
        ("00:00:40", "container", "started again (1)"),
        ("00:02:00", "end", "rank 1 exited with code 3"),
    ]
    assert entries(file)[-1]["about"] == "Failed"


def test_what_an_interrupted_process_wrote_is_not_written_again(file: Path) -> None:
    seen = run(("Created", "True", clock(1)))
    Timeline(file).add(entries_of_run(seen))
    with file.open("a") as half:
        half.write('1\n{"time": "2026')
    Timeline(file).add(entries_of_run(seen))
    assert len(entries(file)) == 1
    Timeline(file).add(entries_of_run(run(("Running", "True", clock(5)))))
    assert [text for *_, text in shown(file)] == ["Created: is Created", "Running: is Running"]


def test_a_long_run_does_not_fill_the_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MOST_ENTRIES", 3)
    written = Timeline(file)
    for second in range(5):
        written.add(entries_of_run(run(("Running", "True", clock(second)))))
    assert len(entries(file)) == 3


def test_a_disk_that_takes_nothing_fails_nothing() -> None:
    written = Timeline(Path("/proc/nowhere/timeline.jsonl"))
    written.add(entries_of_end(End("Succeeded", ""), DONE, []))
    assert entries(written.file) == []


def test_an_event_without_any_time_comes_first_and_is_kept(file: Path) -> None:
    nameless: dict[str, Any] = {"involvedObject": {}, "reason": "Odd", "type": "Normal"}
    Timeline(file).add(entries_of_end(End("Succeeded", "done"), DONE, [nameless]))
    assert shown(file) == [("", "event", "Odd: "), ("00:02:00", "end", "done")]
