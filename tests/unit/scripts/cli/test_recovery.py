"""Interrupted commands' locks, operations, files and processes are cleaned up, and no others."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from core import files
from core.process import CommandFailed
from scripts.cli import recovery
from scripts.cli.backend import Cli, bookkeeping, exists, lock_directory, locks, state_file
from scripts.cli.backend import files as files_of
from scripts.cli.recovery import orphans, recover, repair_files
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state, resource


def hold(pid: int, hostname: str = "") -> None:
    """Locks stack dev as Pulumi does."""
    host = hostname or socket.gethostname()
    lock = {"pid": pid, "hostname": host, "timestamp": "2026-11-21T11:55:01Z"}
    write(lock_directory("dev") / f"{pid}.json", json.dumps(lock))
    write(lock_directory("dev") / f"{pid}.json.attrs", "{}")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def cli_of(*pending: str) -> Mock:
    """Stands for the CLI, on a state that has operations pending, or none."""
    resources = [resource("x:y:Z", name) for name in pending]
    keep_state(pending_operations=[{"type": "creating", "resource": each} for each in resources])
    return Mock(stack="dev", query=Mock(return_value="what was exported"))


@pytest.mark.parametrize("holder", [dead, os.getpid])
def test_the_lock_of_a_dead_process_is_removed(
    holder: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    """After a reboot the number of the dead one may be anybody's; in one case it is this test's."""
    hold(holder())
    cli = cli_of()
    recover(cli)
    (line,) = capsys.readouterr().err.splitlines()
    assert "killed" in line
    assert locks("dev") == {}
    cli.query.assert_not_called()


def test_a_lock_that_is_taken_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(dead())
    found = locks("dev")
    monkeypatch.setattr("scripts.cli.backend.locks", lambda _stack: found)
    hold(1, hostname="elsewhere")
    recover(cli_of())
    assert [lock["hostname"] for lock in locks("dev").values()] == ["elsewhere"]


def test_another_passphrase_has_remedies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi judges it on a copy of the file, and only where its salt is not the state's."""
    run = Mock(side_effect=CommandFailed("error: incorrect passphrase"))
    monkeypatch.setattr("scripts.cli.backend.run", run)
    monkeypatch.setattr(Cli, "_command", lambda _self, arguments: [*arguments])
    keep_state(secrets_providers={"state": {"salt": "v1:its"}})
    file = folder / "Pulumi.dev.yaml"
    file.write_text("config: {}\nencryptionsalt: v1:its\n")
    recover(Cli("dev"))
    run.assert_not_called()
    file.write_text("config: {}\nencryptionsalt: v1:another\n")
    with pytest.raises(CommandError, match=r"(?s)^Pulumi\.dev\.yaml.*XDG_STATE_HOME.*encryptions"):
        recover(Cli("dev"))
    assert "--config-file" in run.call_args.args
    assert str(file) not in run.call_args.args


def test_one_command_at_a_time_changes_a_stack_and_up_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(files.COMMAND_VARIABLE, "make up STACK=dev")
    held = rf"Stack dev is in use by process {os.getpid()} \(make up STACK=dev\) since 20.*Ctrl-C"
    first = recovery.alone("dev")
    with recovery.alone("other"), pytest.raises(CommandError, match=f"^{held}"):
        recovery.alone("dev")
    ending = threading.Timer(0.5, first.close)
    ending.start()
    with recovery.alone("dev", waits=True):
        ending.join()
    assert re.match(held, capsys.readouterr().err)


def test_the_lock_of_a_live_pulumi_is_respected(tmp_path: Path) -> None:
    pulumi = shutil.copy(Path("/bin/sleep").resolve(), tmp_path / "pulumi")
    with subprocess.Popen([pulumi, "30"]) as process:
        hold(process.pid)
        cli = cli_of()
        with pytest.raises(CommandError, match=rf"in use by process {process.pid} \(pulumi.*since"):
            recover(cli)
        process.kill()
    cli.query.assert_not_called()


def test_the_lock_of_another_machine_is_kept_and_pulumi_cancel_suggested() -> None:
    hold(dead())  # one of this machine does not release it
    hold(1, hostname="elsewhere")
    with pytest.raises(CommandError, match=r"on elsewhere since .* pulumi cancel --stack dev"):
        recover(cli_of())


def test_interrupted_operations_are_named_and_dropped_by_exporting_and_importing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recover(cli := cli_of("cluster", "image"))
    (line,) = capsys.readouterr().err.splitlines()
    assert "creating cluster, creating image" in line
    imported = call("stack", "import", stdin="what was exported")
    assert cli.query.call_args_list == [call("stack", "export"), imported]


def test_a_damaged_state_is_named() -> None:
    keep_state()
    state_file("dev").write_text("{")
    said = r"the state of dev, .*dev\.json, can't be read: .*\n.* dev\.json\.bak"
    with pytest.raises(CommandError, match=said):
        recover(Cli("dev"))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack with a state, and a lock, all of it whole."""
    monkeypatch.setattr(recovery, "_WRITING_SECONDS", 0.0)
    write(state_file("dev"), '{"version": 3}')
    write(state_file("dev").with_name("dev.json.attrs"), "{}")
    write(state_file("dev").with_name("dev.json.bak"), '{"version": 2}')
    write(bookkeeping("meta.yaml.attrs"), "{}")
    hold(1)


def pids() -> list[int]:
    return [lock["pid"] for lock in locks("dev").values()]


@pytest.mark.usefixtures("backend")
def test_what_is_whole_or_another_stacks_is_left_alone() -> None:
    other = write(state_file("dev2"), "")
    lock = write(lock_directory("dev2") / "b.json", "")
    before = files_of("dev")
    repair_files("dev")
    assert files_of("dev") == before
    assert pids() == [1]
    assert other.exists()
    assert lock.exists()
    assert other not in before


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("text", ["", '{"pid": 12'])
def test_a_half_written_lock_or_state_is_removed_and_empty_attributes_without_their_file(
    text: str,
) -> None:
    """Pulumi takes the former for a lock that it can't read, and `pulumi up` fails."""
    lock, stack = lock_directory("dev"), state_file("dev")
    half = [lock / "b.json.18c0ffee.tmp", lock / "c.json", lock / "1.json.attrs",
            stack.with_name("dev.json.18c0ffee.tmp"), stack.with_name("dev.json.bak.18c0ffee.tmp"),
            stack.with_name("dev.json.attrs"), bookkeeping("meta.yaml.attrs")]  # fmt: skip
    for each in half:
        write(each, text)
    assert pids() == [1]
    repair_files("dev")
    assert [each for each in half if each.exists()] == []
    assert pids() == [1]
    assert state_file("dev").read_text() == '{"version": 3}'


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("text", ["", '{"version": 3, "deploy'])
def test_a_state_lost_with_the_machines_power_is_the_one_before(text: str) -> None:
    """Without one before it is left for the command to report."""
    write(state_file("dev"), text)
    repair_files("dev")
    assert state_file("dev").read_text() == '{"version": 2}'
    state_file("dev").with_name("dev.json.bak").unlink()
    write(state_file("dev"), text)
    repair_files("dev")
    assert exists("dev")


@pytest.mark.usefixtures("backend")
def test_a_file_being_written_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    half = write(lock_directory("dev") / "b.json", "")
    monkeypatch.setattr("scripts.cli.recovery.time.sleep", lambda _: half.write_text('{"pid": 2}'))
    repair_files("dev")
    assert pids() == [1, 2]


@pytest.mark.usefixtures("backend")
def test_what_a_living_process_uses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a live Pulumi's, however long its disk takes."""
    open_one = lock_directory("dev") / "b.json.18c0ffee.tmp"
    abandoned = write(lock_directory("dev") / "c.json.18c0ffee.tmp", "")
    begun = lock_directory("dev") / "d.json.18c0ffee.tmp"
    monkeypatch.setattr("scripts.cli.recovery.time.sleep", lambda _seconds: write(begun, ""))
    with open_one.open("w"):
        repair_files("dev")
        assert not abandoned.exists()
        assert open_one.exists()
        assert begun.exists()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, with programs of the names that count."""
    monkeypatch.setattr("scripts.cli.project.directory", lambda: tmp_path)
    for name, program in (("pulumi-language-python", "sleep"), ("pulumi", "bash")):
        found = shutil.which(program)
        assert found is not None
        shutil.copy(Path(found).resolve(), tmp_path / name)
    return tmp_path


def test_a_language_host_without_its_cli_is_ended_in_this_checkout_alone(checkout: Path) -> None:
    start = partial(subprocess.Popen, [checkout / "pulumi-language-python", "30"])
    with start(cwd="/") as other, start(cwd=checkout) as own:
        recover(cli_of())
        assert own.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()


def test_a_language_host_whose_cli_lives_is_left_alone(checkout: Path) -> None:
    script = "./pulumi-language-python 30 & echo; wait"
    with subprocess.Popen(
        [checkout / "pulumi", "-c", script], cwd=checkout, stdout=subprocess.PIPE
    ) as cli:
        assert cli.stdout is not None
        cli.stdout.readline()
        children = Path(f"/proc/{cli.pid}/task/{cli.pid}/children")
        host = Path("/proc", children.read_text().strip())
        deadline = time.monotonic() + 10
        while (host / "exe").readlink().name != "pulumi-language-python":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert orphans(checkout) == []
        cli.kill()
        cli.wait()
        (host / "exe").readlink()
        assert orphans(checkout) == [int(host.name)]
        os.kill(int(host.name), signal.SIGTERM)
