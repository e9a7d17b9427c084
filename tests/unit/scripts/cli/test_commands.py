"""What a stack's commands do around Pulumi: its file, its stack, and the CLI itself."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from core import tokens, toolchain
from core.process import CommandFailed
from scripts.cli import commands, config, kubeconfig
from scripts.cli.backend import INTERRUPTED, Cli
from scripts.cli.config import cluster_of, ensure_own, jobs_of, settings_of
from scripts.cli.kubeconfig import explanation
from scripts.cli.runs import results
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state, resource
from tests.unit.shell_program import shell_program


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
    ("text", "jobs"),
    [
        ("", []),
        ("config: {x: 1}", []),
        ("config: {'slipway:jobs': {a: {}, b: 7}}", ["a", "b"]),
        ("config: {'slipway:jobs': 7}", []),
    ],
)
def test_a_file_with_wrong_settings_is_the_programs_to_judge(
    text: str, jobs: list[str], checkout: Path
) -> None:
    (checkout / "Pulumi.mine.yaml").write_text(text)
    assert (cluster_of("mine"), jobs_of("mine")) == ({}, jobs)


def test_a_file_is_read_as_pulumi_reads_it(checkout: Path) -> None:
    """To PyYAML, `on` is true, which would be the name of a key here."""
    notify = "{url: {config: hook}, on: [failed], off: On}"
    (checkout / "Pulumi.mine.yaml").write_text(f"config: {{'slipway:notify': {notify}}}")
    expected = {"url": {"config": "hook"}, "on": ["failed"], "off": "On"}
    assert settings_of("mine")["slipway:notify"] == expected


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("knid", "There is no stack 'knid'. Did you mean kind? Stacks: dev, kind, mine"),
        *((name, f"{name!r} is not a valid stack name: ") for name in ("../x", "", "ü", "a" * 101)),
    ],
)
def test_a_stack_that_is_not_there_is_one_message(name: str, why: str, checkout: Path) -> None:
    files = {*checkout.parent.rglob("*")}
    with pytest.raises(CommandError) as unknown:
        ensure_own(name)
    assert str(unknown.value).startswith(why)
    assert "\n" not in str(unknown.value)
    assert {*checkout.parent.rglob("*")} == files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config:\n  a: {b: c\n  d: [\n", "but got ':' in \"{file}\", line 3, column 4"),
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
    assert jobs_of("mine") == []


@pytest.mark.usefixtures("checkout")
def test_a_stack_made_meanwhile_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[[], None]] = [lambda: None, keep_state]

    def query(_self: Cli, *_command: str) -> str:
        made.pop(0)()
        raise CommandFailed("error: stack 'organization/slipway/dev' already exists")

    monkeypatch.setattr(Cli, "query", query)
    with pytest.raises(CommandFailed):
        commands.prepared("dev")
    assert commands.prepared("dev").stack == "dev"


def test_no_update_leaves_out_a_part_of_the_stack_or_replaces_what_was_not_named(
    monkeypatch: pytest.MonkeyPatch, checkout: Path
) -> None:
    """`--target` and `--exclude` would leave out a part; a removed job would be deleted."""
    ran = Mock(return_value=0)
    monkeypatch.setattr(Cli, "run", ran)
    monkeypatch.setattr(commands, "prepared", Cli)
    monkeypatch.setattr(results, "summarize", ran)
    runs = {name: resource(tokens.PYTORCH_JOB, name) for name in ("a", "b")}
    keep_state(resources=[*runs.values()])
    commands.up("dev")
    whole = ["up", "--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress"]
    assert [*ran.call_args_list[0].args] == whole
    ran.reset_mock()
    commands.rerun("dev", "b")
    assert [*ran.call_args_list[0].args] == [*whole, "--replace", runs["b"]["urn"]]
    ran.reset_mock()
    jobs = "'slipway:jobs': {b: {image: example.org/mine:1, command: [train]}}"
    text = f"config: {{'slipway:cluster': {{kind: embedded}}, {jobs}}}"
    (checkout / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(CommandError, match=r"no job 'a'.* Jobs in dev: b\..* `up` removes a; "):
        commands.rerun("dev", "a")
    ran.assert_not_called()


def test_after_ctrl_c_a_message_confirms_that_outputs_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pulumi shows the outputs of a stack whose update was cancelled as removed."""
    monkeypatch.setattr(commands, "prepared", Cli)
    monkeypatch.setattr(Cli, "run", lambda *_arguments: INTERRUPTED)
    assert commands.up("dev") == INTERRUPTED
    assert "The stack keeps its outputs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "job", "message"),
    [
        (["mine", "other"], "othre", r"'othre'\. Did you mean other\? Jobs in dev: mine, other\."),
        (["mine"], "", r"JOB=NAME\. Jobs in dev: mine\."),
        ([], "mine", "has no runs yet; `make up STACK=dev`"),
    ],
)
def test_a_rerun_of_an_unknown_job_lists_those_that_have_a_run(
    names: list[str], job: str, message: str
) -> None:
    runs = [resource(tokens.PYTORCH_JOB, name) for name in names]
    old = resource(tokens.PYTORCH_JOB, "old", delete=True)
    keep_state(resources=[*runs, old, resource(tokens.GATE, "gated")])
    with pytest.raises(CommandError, match=message):
        commands.rerun("dev", job)


def test_a_job_of_the_stacks_file_that_was_not_trained_is_no_unknown_job(checkout: Path) -> None:
    (checkout / "Pulumi.dev.yaml").write_text("config: {'slipway:jobs': {mine: {}}}")
    with pytest.raises(CommandError, match=r"mine has not run yet; run `make up STACK=dev`"):
        config.require_job("dev", "mine", ["other"])


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ('test "$3 $4" = "--stack dev" && {done}; exit 7', 7),
        # The terminal sends it to both; here the script stands for the terminal as well.
        ("kill -INT $PPID; sleep 0.2; kill -INT $PPID; sleep 0.2; {done}; exit 3", INTERRUPTED),
        # So a pipeline or a supervisor ends a command, which knows its own process only.
        ("trap '{done}; exit 5' INT; kill -TERM $PPID; while :; do sleep 0.1; done", INTERRUPTED),
    ],
    ids=["own", "ctrl-c", "sigterm"],
)
def test_the_status_is_the_clis_and_ctrl_c_and_sigterm_are_left_to_it_as_ctrl_c(
    script: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shell_program(tmp_path / "pulumi", script.replace("{done}", f"touch {tmp_path}/done"))
    monkeypatch.setattr(toolchain, "path", lambda _name: program)
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert Cli("dev").run("up", "--yes") == status
    assert (tmp_path / "done").exists()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_is_no_file_is_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/pipe")
    state = StackState("a: kubeconfig")
    monkeypatch.setattr(kubeconfig, "read_state", lambda _stack, **_secrets: state)
    with pytest.raises(CommandError, match="pipe is not a file; set KUBECONFIG"):
        kubeconfig.merge("dev")


def test_the_current_context_stays_and_the_switch_command_is_shown() -> None:
    file = Path("/home/me/.kube/config")
    first, *_ = explanation("slipway-kind", file, "mine").splitlines()
    command = f"kubectl --kubeconfig {file} config use-context slipway-kind"
    assert first.endswith(f"the current context is still mine; to switch: {command}")
    first, _, undo = explanation("slipway-kind", file, "slipway-kind").splitlines()
    assert first.endswith("; it is the current context")
    assert undo.endswith("config unset current-context")
