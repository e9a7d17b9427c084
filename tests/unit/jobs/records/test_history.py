"""What trained each run is remembered when its logs have gone, and never fails a run."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.records import archive, history
from jobs.records.archive import Archive
from jobs.records.history import History, Record, epochs, provenance, revision
from tests.unit.archived_run import COMMIT, event, line, made, rank_log, remembered

FIRST, SECOND = "mine-20260101-000000-aaaa", "mine-20260102-000000-bbbb"
SUCCEEDED = {"state": "Succeeded", "accuracy": 0.92}


def mine() -> Archive:
    return archive.of_job("dev", "mine")


def test_a_record_outlives_the_logs_of_its_run_and_the_job() -> None:
    """The history of runs stays until `make down`."""
    made([rank_log(0), rank_log(1)])
    result = {**SUCCEEDED, "reason": "x" * 5 * 2**20}  # a rank's message has a limit, this has none
    assert stat.S_IMODE(remembered(FIRST, result).stat().st_mode) == 0o600
    mine().remove()
    assert mine().runs() == []
    assert archive.jobs("dev") == []
    [record] = History(mine()).records()
    assert record.provenance["revision"] == COMMIT
    assert record.result == result
    assert [each["accuracy"] for each in record.epochs] == [0.91, 0.92]


def test_records_are_ordered_and_the_oldest_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 2)
    third = "after-it-was-renamed-20260103-000000-cccc"
    for run_id in (FIRST, SECOND, third):
        remembered(run_id, None)
        mine().run(run_id).directory.mkdir()
    assert [each.run_id for each in History(mine()).records()] == [SECOND, third]
    assert [each.id for each in mine().runs()] == [FIRST, SECOND, third]


def test_a_run_that_is_taken_up_again_keeps_what_was_known_at_its_start() -> None:
    remembered(FIRST, None, revision="before")
    remembered(FIRST, SUCCEEDED, revision="after")
    [record] = History(mine()).records()
    assert (record.provenance["revision"], record.result) == ("before", SUCCEEDED)


def test_a_disk_that_takes_nothing_fails_nothing() -> None:
    blocked = History(Archive(Path("/proc/nowhere")))
    blocked.begin(Record(run_id=FIRST, submitted=""))
    blocked.end(FIRST, SUCCEEDED)
    assert blocked.records() == []


def test_an_epoch_is_what_all_ranks_reported_of_it() -> None:
    first, second = epochs(made([rank_log(0), rank_log(1)]))
    parts = {"data": 0.5, "forward": 1.5, "backward": 2.5, "optimizer": 0.5}
    figures = {"loss": 0.5, "accuracy": 0.91, "samples_per_second": 128.0, "seconds": 5.0}
    assert first == {"epoch": 1, **figures, "seconds_in": parts, "elapsed_seconds": 7.0}
    assert (second["epoch"], second["elapsed_seconds"]) == (2, 17.0)


def test_an_epoch_that_was_trained_again_counts_once() -> None:
    again = event(20, "epoch", 0, epoch=2, loss=0.1, samples_per_second=10.0)
    odd = json.dumps({"event": "epoch", "rank": 0, "epoch": 3, "loss": 0.5, "time": "never"})
    _, second, third = epochs(made([rank_log(0) + again + line(30, odd)]))
    assert (second["loss"], second["samples_per_second"]) == (0.1, 10.0)
    assert third == {"epoch": 3, "loss": 0.5}, "without a time it has no end"


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


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    return tmp_path


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(repository: Path) -> str:
    """Make a directory a repository, commit all that is in it, and return the commit."""
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "one")
    return git(repository, "rev-parse", "HEAD")


def inputs(**declared: Any) -> dict[str, Any]:
    return {"job": declared, "image": "example.org/mine@sha256:1"}


def test_a_clean_commit_is_the_revision_and_a_change_makes_it_dirty(repository: Path) -> None:
    (repository / "train.py").write_text("1\n")
    commit = committed(repository)
    assert revision(repository) == commit
    for changed in ("train.py", "in_no_commit.py"):
        git(repository, "checkout", "--quiet", ".")
        (repository / changed).write_text("2\n")
        assert revision(repository) == f"{commit}-dirty"


def test_no_commit_is_no_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert revision(repository) is None
    git(repository, "init", "--quiet")
    assert revision(repository) is None
    monkeypatch.setenv("PATH", "")
    assert "revision" not in provenance(inputs())


@pytest.mark.usefixtures("repository")
def test_image_data_and_settings_are_those_of_the_inputs() -> None:
    """A script's content is known by its ConfigMap."""
    data = {"url": "https://example.org/d.tar", "sha256": "ab"}
    assert provenance(inputs(data=data, epochs=2)) == {
        "image": "example.org/mine@sha256:1",
        "data": data,
        "settings": {"data": data, "epochs": 2},
    }
    assert "data" not in provenance(inputs(epochs=2))
    assert provenance({**inputs(), "script": {"name": "mine-ab12"}})["files"] == ["mine-ab12"]


def test_the_revision_of_a_script_is_that_of_its_own_directory(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    committed(repository)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    script = elsewhere / "train.py"
    script.write_text("1\n")
    assert "revision" not in provenance(inputs(script=str(script)))
    commit = committed(elsewhere)
    for own in (script, elsewhere):
        assert provenance(inputs(script=str(own)))["revision"] == commit
