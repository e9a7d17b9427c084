"""The passphrase is made once, for its owner alone, and never replaced; Pulumi keeps no log."""

from pathlib import Path

import pytest

from scripts.cli.terminal import CommandError
from scripts.environment import backend, passphrase_file, prepare, pulumi_home


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "slipway"


def test_the_passphrase_is_random_and_private(state: Path) -> None:
    prepare()
    first = passphrase_file().read_text()
    assert len(first.strip()) >= 32
    assert passphrase_file().stat().st_mode & 0o777 == 0o600
    assert backend().stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in state.iterdir()) == ["passphrase", "pulumi"]
    passphrase_file().unlink()
    prepare()
    assert passphrase_file().read_text() != first


def test_a_passphrase_that_is_there_stays_and_is_closed_to_others() -> None:
    prepare()
    first = passphrase_file().read_text()
    passphrase_file().chmod(0o644)
    prepare()
    assert passphrase_file().read_text() == first
    assert passphrase_file().stat().st_mode & 0o777 == 0o600


def test_a_lost_passphrase_is_told_and_not_replaced() -> None:
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
