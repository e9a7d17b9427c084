"""What a run's ranks print is kept: without a gap, without a double line, without failing a run."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.api.follower import Container
from jobs.api.lines import LONGEST, Cursor, Line
from jobs.model.pytorchjob import Topology
from jobs.records import archive, recording
from jobs.records.archive import Run
from jobs.records.recording import Recording

FIRST = Container(0, "mine-master-0", "aaa", ended=False, previous=False)
URN = "urn:pulumi:dev::slipway::slipway:jobs:PyTorchJob::mine"


def line(second: int, text: str = "x", fraction: int = 0) -> Line:
    return Line(f"2026-01-01T00:00:{second:02}.{fraction:09}Z", text)


def run(run_id: str = "mine-1") -> Run:
    return archive.of_urn(URN).run(run_id)


def recorded(*lines: Line, into: Run | None = None) -> Run:
    into = run() if into is None else into
    with Recording(into, Topology(2), pytest.fail) as made:
        made.begin(FIRST)
        for each in lines:
            made.take(FIRST, [each])
    return into


def test_a_log_is_found_by_its_resource_its_replica_and_its_container() -> None:
    """Only its owner can read it."""
    kept = recorded(line(1, "hello"), line(2, ""))
    runs = archive.of_job("dev", "mine").directory.parents[1]
    assert kept.directory == runs / "dev/mine/mine-1"
    [log] = kept.logs()
    assert (log.replica, log.container) == (0, "aaa")
    assert list(log.lines()) == [line(1, "hello"), line(2, "")]
    assert not log.is_cut
    assert kept.topology == Topology(2)
    assert (archive.jobs("dev"), archive.jobs("prod")) == (["mine"], [])
    below = [path for path in runs.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in below} == {0o600}
    folders = [kept.directory, *kept.directory.parents[:3]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_a_new_run_keeps_the_attempts_before_it_and_nothing_older() -> None:
    for run_id in ("mine-1", "mine-2", "mine-3"):
        recorded(line(1), into=run(run_id))
    archive.of_urn(URN).keep({"mine-2", "mine-3"})
    assert [each.id for each in archive.of_urn(URN).runs()] == ["mine-2", "mine-3"]
    archive.of_urn(URN).remove()
    assert archive.of_urn(URN).runs() == []
    archive.of_urn(URN).remove()


# Each byte that is no UTF-8 is kept as a character of three.
_LONGEST = line(2, "\ufffd" * (LONGEST - 40))


@pytest.mark.parametrize(
    ("last", "half"),
    [
        (line(2), ""),
        (line(2), "2026-01-01T00:0"),
        (line(2), str(line(3, "half"))),
        (_LONGEST, str(line(3, "\ufffd" * LONGEST))),
    ],
    ids=range(4),
)
def test_recording_goes_on_behind_the_last_whole_line(last: Line, half: str) -> None:
    kept = recorded(line(1), last)
    with kept.log(0, "aaa").path.open("a") as file:
        file.write(half)
    with Recording(kept, Topology(2), pytest.fail) as made:
        assert made.begin(FIRST) == Cursor(last.stamp, 1)
        made.take(FIRST, [line(3, "whole")])
    assert list(kept.log(0, "aaa").lines()) == [line(1), last, line(3, "whole")]


def test_a_log_too_long_keeps_its_newest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_LOG_BYTES", 4096)
    lines = [line(second, "y" * 200) for second in range(60)]
    kept = recorded(*lines)
    log = kept.log(0, "aaa")
    found = list(log.lines())
    assert log.is_cut
    assert found == lines[-len(found) :]
    assert 2048 - 250 < log.path.stat().st_size < 4096 + 250
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert log.cursor() == Cursor(lines[-1].stamp, 1)


def test_the_more_replicas_the_less_is_kept_of_each() -> None:
    assert Recording(run(), Topology(4), pytest.fail).limit == 64 * 2**20
    assert Recording(run(), Topology(1000), pytest.fail).limit == 2 * 2**30 // 1000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_a_full_disk_is_warned_of_once() -> None:
    warnings: list[str] = []
    recorded(line(1)).log(0, "bbb").path.symlink_to("/dev/full")
    other = replace(FIRST, id="bbb")
    with Recording(run(), Topology(2), warnings.append) as made:
        made.take(other, [line(1)])
        made.take(other, [line(2)])
    [warning] = warnings
    assert "No space left on device" in warning
    assert "The run continues" in warning


def test_one_process_records_a_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_LOCK_SECONDS", 0.2)
    warnings: list[str] = []
    with Recording(run(), Topology(2), pytest.fail) as first:
        with Recording(run(), Topology(2), warnings.append) as second:
            second.take(FIRST, [line(1)])
        first.take(FIRST, [line(1)])
    assert len(warnings) == 1
    recorded(line(2))
    assert list(run().log(0, "aaa").lines()) == [line(1), line(2)]


def fresh(cursor: Cursor, *batches: list[Line]) -> list[Line]:
    return [each for batch in cursor.fresh(batches) for each in batch]


@pytest.mark.parametrize("read", range(7))
def test_a_log_goes_on_after_the_line_that_it_was_read_to(read: int) -> None:
    """Of what was written to both outputs, two times are out of order, and two are equal."""
    out_of_order = [line(1, "a"), line(2, "b", 500), line(2, "c", 499)]
    everything = [*out_of_order, line(3, "d"), line(3, "e"), line(4, "f")]
    cursor = Cursor()
    cursor.see(everything[:read])
    since = cursor.since
    again = [each for each in everything if since is None or each.stamp[:19] >= since[:19]]
    assert fresh(cursor, [], again[:2], again[2:]) == everything[read:]
    assert fresh(cursor, again) == []


def test_a_log_goes_on_where_its_node_still_has_it_and_with_lines_that_were_not_taken() -> None:
    cursor = Cursor(line(1).stamp, 1)
    assert fresh(cursor, [], [line(5), line(6)]) == [line(5), line(6)]
    cursor = Cursor()
    for batch in cursor.fresh([[line(1)], [line(2)]]):
        if batch == [line(2)]:
            break
    assert cursor == Cursor(line(1).stamp, 1)


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ("2026-01-01T00:00:01.000000000Z a  b ", line(1, "a  b ")),
        ("2026-01-01T00:00:01.000000000Z ", line(1, "")),
        ("2026-01-01T05:30:01.000000007+05:30 x", line(1, "x", 7)),
        ("unable to retrieve container logs for containerd://aaa", None),
        ("", None),
    ],
)
def test_only_what_the_program_wrote_is_a_line(raw: str, parsed: Line | None) -> None:
    assert Line.parse(raw) == parsed
    if parsed is not None:
        assert Line.parse(str(parsed)) == parsed
