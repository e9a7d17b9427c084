"""What trained each run is remembered when its logs have gone, and never fails a run."""

import json
import stat
from pathlib import Path

import pytest

from jobs.records import archive, history
from jobs.records.archive import Archive
from jobs.records.history import History, Record, epochs
from tests.unit.archived_run import COMMIT, event, line, made, rank_log, remembered

FIRST, SECOND = "mine-20260101-000000-aaaa", "mine-20260102-000000-bbbb"
SUCCEEDED = {"state": "Succeeded", "accuracy": 0.92}


def mine() -> Archive:
    return archive.of_job("dev", "mine")


def test_a_record_outlives_the_logs_of_its_run_and_the_job() -> None:
    """The history of runs stays until `make down`."""
    made([rank_log(0), rank_log(1)])
    remembered(FIRST, SUCCEEDED)
    mine().remove()
    assert mine().runs() == []
    assert archive.jobs("dev") == []
    [record] = History(mine()).records()
    assert record.provenance["revision"] == COMMIT
    assert record.result == SUCCEEDED
    assert [each["accuracy"] for each in record.epochs] == [0.91, 0.92]


def test_only_its_owner_can_read_it() -> None:
    assert stat.S_IMODE(remembered(FIRST, None).stat().st_mode) == 0o600


def test_records_are_ordered_and_the_oldest_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 2)
    third = "mine-20260103-000000-cccc"
    for run_id in (FIRST, SECOND, third):
        remembered(run_id, None)
    assert [each.run_id for each in History(mine()).records()] == [SECOND, third]


def test_a_run_that_is_taken_up_again_keeps_what_was_known_at_its_start() -> None:
    remembered(FIRST, None, revision="before")
    remembered(FIRST, SUCCEEDED, revision="after")
    [record] = History(mine()).records()
    assert (record.provenance["revision"], record.result) == ("before", SUCCEEDED)


def test_a_disk_that_takes_nothing_and_a_record_that_is_damaged_fail_nothing() -> None:
    remembered(FIRST, None).write_text("{")
    assert History(mine()).records() == []
    blocked = Archive(Path("/proc/nowhere"))
    History(blocked).begin(Record(run_id=FIRST, submitted=""))
    History(blocked).end(FIRST, SUCCEEDED)
    assert History(blocked).records() == []


def test_an_epoch_is_what_all_ranks_reported_of_it() -> None:
    first, second = epochs(made([rank_log(0), rank_log(1)]))
    assert first == {
        "epoch": 1, "loss": 0.5, "accuracy": 0.91, "samples_per_second": 128.0,
        "seconds_in": {"data": 0.5, "forward": 1.5, "backward": 2.5, "optimizer": 0.5},
        "seconds": 5.0, "elapsed_seconds": 7.0,
    }  # fmt: skip
    assert (second["epoch"], second["elapsed_seconds"]) == (2, 17.0)


def test_an_epoch_that_was_trained_again_counts_once() -> None:
    again = event(20, "epoch", 0, epoch=2, loss=0.1, samples_per_second=10.0)
    _, second = epochs(made([rank_log(0) + again]))
    assert (second["loss"], second["samples_per_second"]) == (0.1, 10.0)


@pytest.mark.parametrize("time", ["never", "2026-01-01T00:00:09", None])
def test_times_that_are_none_leave_out_when_an_epoch_ended(time: str | None) -> None:
    odd = json.dumps({"event": "epoch", "rank": 0, "epoch": 1, "loss": 0.5, "time": time})
    [found] = epochs(made([event(0, "started", 0) + line(1, odd)]))
    assert found == {"epoch": 1, "loss": 0.5}


def test_a_result_is_remembered_whatever_its_programs_printed() -> None:
    made([event(0, "epoch", 0, epoch=1, loss=10**400)])
    remembered(FIRST, SUCCEEDED)
    [record] = History(mine()).records()
    assert (record.result, record.epochs) == (SUCCEEDED, [{"epoch": 1, "loss": float("inf")}])


def test_a_long_result_is_read_whole() -> None:
    """A rank's message has a limit; what is kept of a run has none."""
    long = {"reason": "x" * 5 * 2**20, **SUCCEEDED}
    remembered(FIRST, long)
    [record] = History(mine()).records()
    assert record.result == long


def test_of_a_damaged_record_what_is_right_is_left() -> None:
    file = remembered(FIRST, SUCCEEDED, settings={"epochs": 1})
    odd = {"provenance": {"settings": 5, "revision": COMMIT}, "result": {"accuracy": 1}}
    curve = [{"epoch": 1, "loss": "x", "seconds_in": {"data": 1, "y": []}}, "an epoch"]
    file.write_text(json.dumps({"run_id": FIRST, "submitted": "", **odd, "epochs": curve}))
    [record] = History(mine()).records()
    assert (record.provenance, record.result) == ({"revision": COMMIT}, None)
    assert record.epochs == [{"epoch": 1, "seconds_in": {"data": 1}}]


def test_logs_that_take_too_long_to_read_leave_no_epochs() -> None:
    assert epochs(made([rank_log(0)]), limit_seconds=-1) == []
