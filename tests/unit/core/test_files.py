"""Files that are complete or absent, and locks."""

import errno
import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from core import files
from core.paths import state_dir


def hold(file: Path, ready: threading.Event, end: threading.Event) -> None:
    os.environ[files.COMMAND_VARIABLE] = "make up STACK=dev"
    with files.locked(file, what="push of a"):
        ready.set()
        end.wait(60)


def test_who_waits_for_a_lock_reads_who_holds_it(tmp_path: Path) -> None:
    context, file = multiprocessing.get_context("fork"), tmp_path / "lock"
    ready, end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(file, ready, end), daemon=True)
    process.start()
    assert ready.wait(30)
    pid = process.pid
    waited: list[str] = []
    by = rf"process {pid} \(make up STACK=dev: push of a\) since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
    with (
        pytest.raises(TimeoutError, match=rf"is still locked after 1 s, by {by}"),
        files.locked(file, limit=0.6, waiting=waited.append),
    ):
        pass
    assert len(waited) == 1
    process.kill()


def test_the_limit_is_each_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel pushes wait for each other: the last one waits for all of them."""
    file, waited = tmp_path / "lock", list[str]()
    now = [0.0]
    turns = iter([f"process {number}" for number in range(5)])

    def flock(*_arguments: object) -> None:
        now[0] += 90
        turn = next(turns, None)
        file.write_text(turn or "")
        if turn is not None:
            raise BlockingIOError

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(files, "_PAUSE", 0)
    with files.locked(file, limit=100, waiting=waited.append):
        assert waited == [f"process {number}" for number in range(5)]


def test_a_full_disk_leaves_the_file_as_it_was_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner").write_text("before")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        files.write(tmp_path / "owner", "slipway/dev", mode=0o600)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("owner", "before")]
    text = str(files.unwritable(caught.value))
    assert text.startswith(f"{tmp_path}/owner: No space left on device. ")
    assert files.unwritable(TimeoutError("a lock")) is None
    assert files.unwritable(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None


def test_a_link_is_kept_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("file")
    files.write(link, "text", mode=0o600)
    assert (link.is_symlink(), (tmp_path / "file").read_text()) == (True, "text")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write(pipe, "text", mode=0o600)
    assert os.read(reader, 9) == b"text"
    os.close(reader)


def test_only_for_its_own_folders_a_message_advises_to_have_them_elsewhere() -> None:
    own = [state_dir() / "passphrase", state_dir(), state_dir().parent]
    for name in (*own, Path("/home/me/.kube")):
        text = str(files.unwritable(OSError(errno.EPERM, "another user's", str(name))))
        assert text.startswith(f"{name}: another user's. ")
        assert ("XDG_STATE_HOME" in text) is (name in own)
    assert files.unwritable(PermissionError(errno.EPERM, "of a process, not a file")) is None


def test_a_killed_removal_leaves_nothing_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kill, left in ((lambda *_, **__: None, ["aside"]), (shutil.rmtree, [])):
        (tmp_path / "whole" / "file").mkdir(parents=True)
        monkeypatch.setattr("shutil.rmtree", kill)
        files.remove(tmp_path / "whole", tmp_path / "aside")
        assert [each.name for each in tmp_path.iterdir()] == left
