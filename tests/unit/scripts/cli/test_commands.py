"""What a stack's commands do around Pulumi: its file, its lock, and what was interrupted."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from clusters import owner
from core import files
from core.paths import state_dir
from core.process import CommandFailed
from scripts.cli import commands, config, down, recovery
from scripts.cli.backend import INTERRUPTED, Cli, bookkeeping, exists, locks, rows, state_file
from scripts.cli.config import cluster_of, ensure_own, jobs_of, settings_of
from scripts.cli.recovery import recover
from scripts.cli.terminal import CommandError
from scripts.environment import backend
from tests.unit.scripts.cli.kept_state import keep_state, resource


@pytest.fixture
def checkout(folder: Path) -> Path:
    """A checkout with the stacks dev and kind, and a person's own one, mine."""
    (folder / "stacks").mkdir()
    for name in ("dev", "kind"):
        text = f"config:\n  slipway:cluster:\n    kind: {name}\n"
        (folder / "stacks" / f"{name}.yaml").write_text(text)
    (folder / "Pulumi.mine.yaml").write_text("config: {'slipway:cluster': {kind: mine}}")
    return folder


def test_a_stacks_file_starts_as_a_copy_and_is_then_the_persons(checkout: Path) -> None:
    assert cluster_of("dev") == {"kind": "dev"}
    assert cluster_of("mine") == {"kind": "mine"}
    file = ensure_own("dev")
    assert file == checkout / "Pulumi.dev.yaml"
    assert file.read_text() == (checkout / "stacks" / "dev.yaml").read_text()
    changed = "config: {'slipway:cluster': {kind: other, name: n}}"
    file.write_text(changed)
    assert ensure_own("dev").read_text() == changed
    assert cluster_of("dev") == {"kind": "other", "name": "n"}


@pytest.mark.parametrize(
    "text", ["", "config:", "config: {}", "environment: [x]", "config: {x: 1}"]
)
def test_a_file_without_a_cluster_is_the_programs_to_judge(text: str, checkout: Path) -> None:
    (checkout / "Pulumi.mine.yaml").write_text(text)
    assert cluster_of("mine") == {}


@pytest.mark.parametrize(
    ("jobs", "names"), [("{a: {}, b: 7}", ["a", "b"]), ("{}", []), ("7", []), ("[", [])]
)
def test_job_names_are_known_in_any_file(jobs: str, names: list[str], checkout: Path) -> None:
    (checkout / "Pulumi.mine.yaml").write_text(f"config: {{'slipway:jobs': {jobs}}}")
    assert jobs_of("mine") == names


def test_a_file_is_read_as_pulumi_reads_it(checkout: Path) -> None:
    """To PyYAML, `on` is true, which would be the name of a key here."""
    notify = "{url: {config: hook}, on: [failed], off: On}"
    (checkout / "Pulumi.mine.yaml").write_text(f"config: {{'slipway:notify': {notify}}}")
    assert settings_of("mine")["slipway:notify"] == {
        "url": {"config": "hook"}, "on": ["failed"], "off": "On",
    }  # fmt: skip


def test_a_stack_that_is_not_there_is_one_message_with_those_that_are(checkout: Path) -> None:
    with pytest.raises(CommandError) as unknown:
        ensure_own("knid")
    text = str(unknown.value)
    assert text.startswith("There is no stack 'knid'. Did you mean kind? Stacks: dev, kind, mine")
    assert "\n" not in text
    assert not (checkout / "Pulumi.knid.yaml").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config:\n  a: {b: c\n  d: [\n", "but got ':' in \"{file}\", line 3, column 4"),
        ("config:\n\ta: b\n", 'cannot start any token in "{file}", line 2, column 1'),
        ("a: \x01", "special characters are not allowed"),
        ("[]", "it must be a map, with the settings under `config:`"),
        ("config: 7", "7 under `config:` is not allowed; use a map"),
        ("slipway:jobs: {}\nconfig: {}\n", '"slipway:jobs" can\'t be at the top'),
    ],
)
def test_an_unreadable_file_names_the_position(text: str, told: str, checkout: Path) -> None:
    (checkout / "Pulumi.mine.yaml").write_text(text)
    for reads in (ensure_own, cluster_of):
        with pytest.raises(CommandError) as unreadable:
            reads("mine")
        said = str(unreadable.value)
        assert said.startswith("Pulumi.mine.yaml can't be read, so nothing was changed: ")
        assert told.replace("{file}", f"{checkout}/Pulumi.mine.yaml") in said
        assert "\n" not in said


@pytest.mark.parametrize("name", ["../x", "a b", "", "ü", "a" * 101])
@pytest.mark.usefixtures("checkout")
def test_an_invalid_stack_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(CommandError) as refused:
        ensure_own(name)
    said = str(refused.value)
    assert said.startswith(f"{name!r} is not a valid stack name: use only letters, digits")
    assert "A new one" not in said


def test_every_stack_of_the_repository_names_its_cluster(root: Path) -> None:
    committed = sorted(path.stem for path in (root / "stacks").glob("*.yaml"))
    assert "dev" in committed
    for name in committed:
        assert config.template(name) == root / "stacks" / f"{name}.yaml"
        assert "kind" in cluster_of(name)


def hold(pid: int, hostname: str = "") -> None:
    """Locks stack dev as Pulumi does."""
    directory = backend() / ".pulumi" / "locks" / "organization" / "slipway" / "dev"
    directory.mkdir(parents=True, exist_ok=True)
    lock = {
        "pid": pid,
        "username": "someone",
        "hostname": hostname or socket.gethostname(),
        "timestamp": "2026-11-21T11:55:01Z",
    }
    (directory / f"{pid}.json").write_text(json.dumps(lock))
    (directory / f"{pid}.json.attrs").write_text("{}")


def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


class FakeCli:
    """Stands for the CLI, on a state that has an operation pending, or none."""

    stack = "dev"

    def __init__(self, *pending: str) -> None:
        resources = [resource("x:y:Z", name) for name in pending]
        operations = [{"type": "creating", "resource": each} for each in resources]
        keep_state(pending_operations=operations)
        self.asked: list[tuple[str, ...]] = []
        self.stdin = ""

    def query(self, *arguments: str, stdin: str = "") -> str:
        self.asked.append(arguments)
        self.stdin += stdin
        return "what was exported" if arguments == ("stack", "export") else ""


def recovered(cli: Any) -> list[str]:
    with redirect_stderr(StringIO()) as said:
        recover(cli)
    return said.getvalue().splitlines()


def test_a_stack_that_nothing_happened_to_is_left_alone() -> None:
    cli = FakeCli()
    assert recovered(cli) == []
    assert cli.asked == []


@pytest.mark.parametrize("holder", [dead, os.getpid])
def test_the_lock_of_a_dead_process_is_removed(holder: Callable[[], int]) -> None:
    """After a reboot the number of the dead one may be anybody's; in one case it is this test's."""
    hold(holder())
    cli = FakeCli()
    (line,) = recovered(cli)
    assert "killed" in line
    assert locks("dev") == {}
    assert cli.asked == []


def test_a_lock_that_is_taken_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(dead())
    found = locks("dev")
    monkeypatch.setattr("scripts.cli.backend.locks", lambda _stack: found)
    hold(1, hostname="elsewhere")
    recovered(FakeCli())
    assert [lock["hostname"] for lock in locks("dev").values()] == ["elsewhere"]


def test_another_passphrase_has_remedies(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi judges it on a copy of the file, and only where its salt is not the state's."""
    asked: list[tuple[str, ...]] = []

    def run(*command: str, **_options: object) -> str:
        asked.append(command)
        raise CommandFailed("error: incorrect passphrase")

    monkeypatch.setattr("scripts.cli.backend.run", run)
    monkeypatch.setattr(Cli, "_command", lambda _self, arguments: [*arguments])
    keep_state(secrets_providers={"state": {"salt": "v1:its"}})
    file = checkout / "Pulumi.dev.yaml"
    file.write_text("config: {}\nencryptionsalt: v1:its\n")
    recover(Cli("dev"))
    assert asked == []
    file.write_text("config: {}\nencryptionsalt: v1:another\n")
    with pytest.raises(CommandError, match=r"(?s)^Pulumi\.dev\.yaml.*XDG_STATE_HOME.*encryptions"):
        recover(Cli("dev"))
    assert "--config-file" in asked[0]
    assert str(file) not in asked[0]


def test_one_command_at_a_time_works_on_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.COMMAND_VARIABLE, "make up STACK=dev")
    held = rf"^Stack dev is in use by process {os.getpid()} \(make up STACK=dev\) since 20.*Ctrl-C"
    in_use = pytest.raises(CommandError, match=held)
    with recovery.alone("dev"), recovery.alone("other"), in_use:
        recovery.alone("dev")
    recovery.alone("dev").close()


def test_make_up_beside_another_says_so_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    held = recovery.alone("dev")
    ending = threading.Timer(0.5, held.close)
    ending.start()
    with recovery.alone("dev", waits=True):
        ending.join()
    assert "Stack dev is in use by process" in capsys.readouterr().err


def test_the_lock_of_a_live_pulumi_is_respected(tmp_path: Path) -> None:
    pulumi = tmp_path / "pulumi"
    pulumi.write_bytes(Path("/bin/sleep").read_bytes())
    pulumi.chmod(0o755)
    process = subprocess.Popen([pulumi, "30"])
    try:
        hold(process.pid)
        cli = FakeCli()
        with pytest.raises(CommandError, match=rf"in use by process {process.pid} \(pulumi.*since"):
            recovered(cli)
        assert cli.asked == []
    finally:
        process.kill()
        process.wait()


def test_the_lock_of_another_machine_is_kept_and_pulumi_cancel_suggested() -> None:
    hold(dead())  # one of this machine does not release it
    hold(1, hostname="elsewhere")
    with pytest.raises(CommandError, match=r"on elsewhere since .* pulumi cancel --stack dev"):
        recovered(FakeCli())


def test_interrupted_operations_are_named_and_dropped_by_exporting_and_importing() -> None:
    cli = FakeCli("cluster", "image")
    (line,) = recovered(cli)
    assert "creating cluster, creating image" in line
    assert cli.asked == [("stack", "export"), ("stack", "import")]
    assert cli.stdin == "what was exported"


@pytest.mark.parametrize(
    "exported", [{}, {"deployment": None}, {"deployment": {}}, {"deployment": {"resources": None}}]
)
def test_an_empty_state_has_nothing_pending_and_no_resources(exported: Any) -> None:
    assert rows(exported, "pending_operations") == rows(exported, "resources") == []


def test_the_backends_files_tell_whether_a_stack_is_there_and_who_holds_it() -> None:
    assert not exists("dev")
    assert locks("dev") == {}
    keep_state()
    assert state_file("dev") == backend() / ".pulumi" / "stacks" / "slipway" / "dev.json"
    hold(7, "elsewhere")
    assert exists("dev")
    assert not exists("de")
    [lock] = locks("dev").values()
    known = [lock[key] for key in ("pid", "hostname", "timestamp")]
    assert known == [7, "elsewhere", "2026-11-21T11:55:01Z"]


def test_a_damaged_state_is_named() -> None:
    keep_state()
    state_file("dev").write_text("{")
    with pytest.raises(
        CommandError, match=r"the state of dev, .*dev\.json, can't be read: .*\n.* dev\.json\.bak"
    ):
        recover(Cli("dev"))


@pytest.mark.usefixtures("checkout")
def test_only_a_missing_stack_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(Cli, "query", lambda _self, *command: asked.append(command))
    commands.prepared("dev")
    assert asked == [("stack", "init", "--no-select")]
    keep_state()
    commands.prepared("dev")
    assert len(asked) == 1


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("is_made", [True, False])
def test_a_stack_made_meanwhile_is_taken(monkeypatch: pytest.MonkeyPatch, *, is_made: bool) -> None:
    def query(_self: Cli, *_command: str) -> str:
        if is_made:
            keep_state()
        raise CommandFailed("error: stack 'organization/slipway/dev' already exists")

    monkeypatch.setattr(Cli, "query", query)
    if is_made:
        assert commands.prepared("dev").stack == "dev"
    else:
        with pytest.raises(CommandFailed):
            commands.prepared("dev")


def test_a_job_of_the_stacks_file_that_was_not_trained_is_no_unknown_job(checkout: Path) -> None:
    (checkout / "Pulumi.dev.yaml").write_text("config: {'slipway:jobs': {mine: {}}}")
    with pytest.raises(CommandError, match=r"mine has not run yet; run `make up STACK=dev`"):
        config.require_job("dev", "mine", ["other"])
    with pytest.raises(CommandError, match=r"no job 'others'\. Did you mean other\?"):
        config.require_job("dev", "others", ["other"])


def test_down_with_nothing_there_succeeds_and_needs_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    assert down.down("dev") == 0
    assert "nothing to destroy" in capsys.readouterr().err


@pytest.mark.parametrize("is_known", [True, False])
def test_down_removes_a_cluster_that_is_the_stacks_by_its_note_or_name(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """Its programs write new files into a directory that is deleted under them."""
    directory = state_dir() / "clusters" / "dev"
    (directory / "config").mkdir(parents=True)
    if is_known:
        owner.claim(directory, "slipway/dev")
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", shutil.rmtree)
    assert down.down("dev") == 0
    assert not directory.exists()


@pytest.mark.parametrize(("left", "removed"), [({"processes": ["1"], "mounts": []}, 1), ({}, 0)])
def test_down_removes_what_runs_of_a_cluster_whose_directory_was_deleted(
    left: dict[str, list[str]],
    removed: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All that it has on the machine is named after that directory."""
    gone: list[Path] = []
    monkeypatch.setattr("clusters.embedded.cluster.remains", lambda *_: {} if gone else left)
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", gone.append)
    assert down.down("dev") == 0
    assert gone == [state_dir() / "clusters" / "dev"] * removed
    place = f"{state_dir()}/clusters/dev"
    said = f"Removing the rest of the cluster in the deleted directory {place}."
    assert (said in capsys.readouterr().err) == bool(removed)


def test_down_fails_with_the_reason_why_a_cluster_could_not_be_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def remove(directory: Path) -> None:
        raise RuntimeError(f"{directory.name} is not wholly gone")

    owner.claim(state_dir() / "clusters" / "dev", "slipway/dev")
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", remove)
    assert down.down("dev") == 1
    assert "dev is not wholly gone" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "..", "../..", "/tmp", "a/b", "shared", "nobodys"])
def test_down_leaves_what_is_not_the_stacks_own(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster of another stack, one that no stack is known to have made, or no cluster at all."""
    removed: list[object] = []
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", removed.append)
    monkeypatch.setattr(down, "cluster_of", lambda _: {"kind": "embedded", "name": name})
    owner.claim(state_dir() / "clusters" / "shared", "slipway/other")
    (state_dir() / "clusters" / "nobodys").mkdir()
    monkeypatch.setattr("scripts.cli.down.prove", lambda *_: True)
    kept = set(state_dir().rglob("*"))
    assert down.down("dev") == 0, capsys.readouterr().err
    assert removed == []
    assert set(state_dir().rglob("*")) >= kept


@pytest.mark.parametrize("file", ["slipway/dev.json.gz", "slipway/dev.json.zst"])
def test_a_state_that_is_not_read_is_not_removed(file: str) -> None:
    hidden = bookkeeping("stacks", file)
    hidden.parent.mkdir(parents=True)
    hidden.write_text("{}")
    with pytest.raises(CommandError, match="which this command can't read"):
        down.down("dev")
    assert hidden.exists()


@pytest.mark.parametrize(("kind", "forgets"), [("embedded", True), ("kubeconfig", False)])
def test_only_what_ran_in_a_cluster_of_the_stacks_own_is_forgotten_when_it_does_not_answer(
    kind: str, forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, str] = {}

    def run(_self: Cli, *_command: str, **given: str) -> int:
        told.update(given)
        return 0

    monkeypatch.setattr(Cli, "run", run)
    monkeypatch.setattr(down, "cluster_of", lambda _stack: {"kind": kind})
    assert down._destroy_resources(Cli("dev")) == 0
    assert ("PULUMI_K8S_DELETE_UNREACHABLE" in told) is forgets


def test_after_ctrl_c_a_message_confirms_that_outputs_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pulumi shows the outputs of a stack whose update was cancelled as removed."""
    codes = iter([INTERRUPTED, 0])
    monkeypatch.setattr(commands, "prepared", Cli)
    monkeypatch.setattr(Cli, "run", lambda *_arguments: next(codes))
    assert commands.up("dev") == INTERRUPTED
    assert "The stack keeps its outputs" in capsys.readouterr().err
    assert commands.up("dev") == 0
    assert capsys.readouterr().err == ""
