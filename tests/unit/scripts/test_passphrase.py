"""The passphrase is made once, for its owner alone, and never replaced; Pulumi keeps no log."""

import errno
import os
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from clusters import owner
from core.files import private_directory
from core.paths import BACKEND_ID
from jobs.records import archive
from scripts.cli import calls
from scripts.cli.__main__ import slipway
from scripts.cli.recovery import alone
from scripts.cli.terminal import CommandError
from scripts.environment import backend, passphrase_file, prepare, pulumi_home
from scripts.setup import bootstrap


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "slipway"


def test_the_passphrase_is_random_and_private_and_stays(state: Path) -> None:
    """Also where others could enter before."""
    state.mkdir(mode=0o755)
    prepare()
    first, own = passphrase_file().read_text(), (backend() / BACKEND_ID).read_text()
    assert len(first.strip()) >= 32
    assert passphrase_file().stat().st_mode & 0o777 == 0o600
    assert {stat.S_IMODE(each.stat().st_mode) for each in (state, backend())} == {0o700}
    assert sorted(path.name for path in state.iterdir()) == ["passphrase", "pulumi"]
    passphrase_file().chmod(0o644)
    prepare()
    assert passphrase_file().read_text() == first
    assert passphrase_file().stat().st_mode & 0o777 == 0o600
    passphrase_file().unlink()
    prepare()
    assert passphrase_file().read_text() != first
    assert (backend() / BACKEND_ID).read_text() == own


def test_a_lost_passphrase_is_reported_and_not_replaced() -> None:
    prepare()
    passphrase_file().unlink()
    stack = backend() / ".pulumi" / "stacks" / "slipway" / "dev.json"
    stack.parent.mkdir(parents=True)
    stack.touch()
    with pytest.raises(CommandError, match="these stacks are encrypted with it: dev"):
        prepare()
    assert not passphrase_file().exists()


def test_logs_of_earlier_commands_go_and_pulumi_can_write_no_others() -> None:
    logs = pulumi_home() / "logs"
    logs.mkdir(parents=True)
    (logs / "pulumi-1.log").touch()
    prepare()
    prepare()
    assert logs.is_file()


@pytest.mark.parametrize("mask", [0, 0o022, 0o177, 0o777])
def test_the_state_directory_and_all_that_is_made_in_it_is_its_owners_alone(
    state: Path, mask: int
) -> None:
    """From the first moment on, whatever the umask."""
    before = os.umask(mask)
    try:
        with alone("dev"):
            prepare()
        owner.claim(state / "local-clusters" / "kind" / "dev", "slipway/dev")
        private_directory(archive.of_stack("dev") / "job" / "run")
    finally:
        os.umask(before)
    made = [state, *(path for path in state.rglob("*") if path.is_dir())]
    assert len(made) == 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


@pytest.mark.parametrize("name", slipway.commands)
def test_a_state_directory_that_takes_nothing_is_one_sentence_in_every_command(
    state: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    reason = errno.ENOSPC if name in {"logs", "preview"} else errno.EROFS

    def closed(path: Path, *_: object, **__: object) -> None:
        raise OSError(reason, os.strerror(reason), str(path))

    if name in calls._CHANGING:  # its lock
        monkeypatch.setattr("scripts.setup.provide.provide", lambda *_, **_more: 0)
        monkeypatch.setattr(Path, "mkdir", closed)
    else:
        monkeypatch.setattr(calls, "resolve_name", lambda _: lambda *_, **_more: closed(state))
    with pytest.raises(SystemExit, match=r"^1$"):
        slipway.main([name])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{state}")
    assert f": {os.strerror(reason)}. Slipway keeps its state in {state}" in line


def test_a_state_directory_that_takes_nothing_is_one_sentence_in_set_up(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Mock(side_effect=OSError(errno.EROFS, "Read-only file system", str(state)))
    monkeypatch.setattr(bootstrap, "_ensure", closed)
    with pytest.raises(SystemExit, match=rf"Read-only file system: '{state}'"):
        bootstrap.main()
