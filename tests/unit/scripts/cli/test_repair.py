"""What a killed Pulumi leaves half-written is put right, and what is whole is left alone."""

import json
from pathlib import Path

import pytest

from scripts.cli import recovery
from scripts.cli.backend import bookkeeping, exists, files, lock_directory, locks, state_file
from scripts.cli.recovery import repair_files

LOCK = {"pid": 1, "username": "me", "hostname": "here", "timestamp": "2026-11-21T11:55:01Z"}


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack with a state, and a lock, all of it whole."""
    monkeypatch.setattr(recovery, "_WRITING_SECONDS", 0.0)
    write(state_file("dev"), '{"version": 3}')
    write(state_file("dev").with_name("dev.json.attrs"), "{}")
    write(state_file("dev").with_name("dev.json.bak"), '{"version": 2}')
    write(lock_directory("dev") / "a.json", json.dumps(LOCK))
    write(lock_directory("dev") / "a.json.attrs", "{}")
    write(bookkeeping("meta.yaml.attrs"), "{}")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_what_is_whole_is_left_alone() -> None:
    before = files("dev")
    assert repair_files("dev") == []
    assert files("dev") == before
    assert [lock["pid"] for lock in locks("dev").values()] == [1]


@pytest.mark.parametrize("text", ["", '{"pid": 12'])
def test_a_lock_that_never_became_whole_is_removed(text: str) -> None:
    """Pulumi takes it for a lock that it can't read, and `pulumi up` fails."""
    half = write(lock_directory("dev") / "b.json.18c0ffee.tmp", text)
    empty = write(lock_directory("dev") / "c.json", text)
    assert sorted(repair_files("dev")) == [half, empty]
    assert [lock["pid"] for lock in locks("dev").values()] == [1]


@pytest.mark.parametrize(
    "name", ["locks/organization/slipway/dev/a.json", "stacks/slipway/dev.json", "meta.yaml"]
)
def test_empty_attributes_are_removed_and_their_file_is_kept(name: str) -> None:
    attributes = write(bookkeeping(f"{name}.attrs"), "")
    assert repair_files("dev") == [attributes]
    assert exists("dev")
    assert len(locks("dev")) == 1


def test_a_half_written_state_beside_the_whole_one_is_removed() -> None:
    half = write(state_file("dev").with_name("dev.json.18c0ffee.tmp"), '{"vers')
    backup = write(state_file("dev").with_name("dev.json.bak.18c0ffee.tmp"), '{"vers')
    assert sorted(repair_files("dev")) == sorted([half, backup])
    assert state_file("dev").read_text() == '{"version": 3}'


@pytest.mark.parametrize("text", ["", '{"version": 3, "deploy'])
def test_a_state_lost_with_the_machines_power_is_the_one_before(text: str) -> None:
    write(state_file("dev"), text)
    assert repair_files("dev") == [state_file("dev")]
    assert state_file("dev").read_text() == '{"version": 2}'


def test_a_lost_state_without_one_before_is_left_for_the_command_to_tell() -> None:
    state_file("dev").with_name("dev.json.bak").unlink()
    write(state_file("dev"), "")
    assert repair_files("dev") == []
    assert exists("dev")


def test_a_file_being_written_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    half = write(lock_directory("dev") / "b.json", "")
    waited = []

    def finish(seconds: float) -> None:
        waited.append(seconds)
        half.write_text(json.dumps(LOCK))

    monkeypatch.setattr("scripts.cli.recovery.time.sleep", finish)
    assert repair_files("dev") == []
    assert len(waited) == 1
    assert len(locks("dev")) == 2


def test_what_a_living_process_uses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a live Pulumi's, however long its disk takes."""
    open_one = lock_directory("dev") / "b.json.18c0ffee.tmp"
    abandoned = write(lock_directory("dev") / "c.json.18c0ffee.tmp", "")
    begun = lock_directory("dev") / "d.json.18c0ffee.tmp"
    monkeypatch.setattr("scripts.cli.recovery.time.sleep", lambda _seconds: write(begun, ""))
    with open_one.open("w"):
        assert repair_files("dev") == [abandoned]
        assert open_one.exists()
        assert begun.exists()


def test_another_stacks_files_are_not_looked_at() -> None:
    other = write(state_file("dev2"), "")
    lock = write(lock_directory("dev2") / "b.json", "")
    assert repair_files("dev") == []
    assert other.exists()
    assert lock.exists()
    assert other not in files("dev")
