"""`make down` removes what is the stack's and nothing else, and says what is left."""

import shutil
import signal
from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from clusters import owner
from core.paths import state_dir
from core.process import CommandFailed
from scripts.cli import down
from scripts.cli.backend import INTERRUPTED, Cli, bookkeeping, lock_directory, state_file
from scripts.cli.config import check, cluster_of
from scripts.cli.down import temporary_config
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state, resource

EMBEDDED = {"kind": "embedded"}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(down, "_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(down, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(down, "orphans", lambda _checkout: [])
    return state_dir()


def proof(cluster: Mapping[str, Any]) -> tuple[bool, str]:
    with redirect_stderr(StringIO()) as said:
        return down.prove("dev", cluster), said.getvalue().rstrip("\n")


def test_down_with_nothing_there_succeeds_needs_no_tool_and_says_what_it_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    assert down.down("dev") == 0
    absent, nothing = capsys.readouterr().err.splitlines()
    assert absent.endswith("nothing to destroy.")
    looked_for = "Removed dev completely: 0 processes, 0 network namespaces, 0 mounts"
    assert nothing.startswith(looked_for)
    assert "0 files" in nothing


def test_all_that_is_left_has_its_remedy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down, "orphans", lambda _checkout: [4711])
    for path in ("clusters/dev/etcd", "runs/dev/mine", lock_directory("dev") / "a.json"):
        (state / path).mkdir(parents=True)
    state_file("dev").parent.mkdir(parents=True)
    state_file("dev").with_name("dev.json.bak").touch()
    proven, said = proof(EMBEDDED)
    assert not proven
    lines = said.splitlines()
    assert lines[0].startswith("Left over from dev, with")
    assert set(lines[1:]) == {
        "  process 4711, orphaned by pulumi: kill 4711",
        f"  {state}/clusters/dev: rm -r {state}/clusters/dev",
        f"  {state}/runs/dev: rm -r {state}/runs/dev",
        f"  {state_file('dev')}.bak: rm -r {state_file('dev')}.bak",
    }


def test_what_the_kernel_ends_a_moment_later_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down, "orphans", Mock(side_effect=[[4711], [4711], []]))
    monkeypatch.setattr(down, "_WAIT_SECONDS", 10)
    assert proof(EMBEDDED)[0]


@pytest.mark.parametrize("cluster", [{}, {"kind": "embeded"}, {"kind": "embedded", "name": "A/B"}])
def test_settings_without_a_cluster_have_none_to_look_for(cluster: Mapping[str, Any]) -> None:
    proven, said = proof(cluster)
    assert proven
    assert said == "Removed dev completely: 0 processes, 0 files left."


@pytest.mark.parametrize(
    ("failure", "protect", "code", "ran"),
    [
        (255, False, 0, ["destroy", "remove", "destroy", "stack"]),
        (255, True, 255, ["destroy"]),
        (INTERRUPTED, False, 128 + signal.SIGINT, ["destroy"]),
    ],
    ids=["failed", "protected", "interrupted"],
)
def test_what_a_destroy_left_goes_with_the_embedded_cluster_unless_protected_or_interrupted(
    failure: int, protect: bool, code: int, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.claim(state_dir() / "clusters" / "dev", "slipway/dev")
    keep_state(resources=[resource("a:b:C", "keep", protect=protect)])
    done: list[str] = []

    def run(_cli: Cli, command: str, *_: str, **_variables: str) -> int:
        done.append(command)
        return failure if done == ["destroy"] else 0

    monkeypatch.setattr(Cli, "run", run)
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", lambda _: done.append("remove"))
    assert down._destroy(Cli("dev")) == code
    assert done == ran


@pytest.mark.parametrize("is_known", [True, False])
def test_down_removes_a_cluster_that_is_the_stacks_by_its_note_or_name_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_known: bool
) -> None:
    directory = state_dir() / "clusters" / "dev"
    (directory / "config").mkdir(parents=True)
    if is_known:
        owner.claim(directory, "slipway/dev")
    failing = Mock(side_effect=RuntimeError("dev is not wholly gone"))
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", failing)
    assert down.down("dev") == 1
    assert "dev is not wholly gone" in capsys.readouterr().err
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", shutil.rmtree)
    assert down.down("dev") == 0
    assert not directory.exists()


@pytest.mark.parametrize("name", ["", "../..", "/tmp", "shared", "nobodys"])
def test_down_leaves_what_is_not_the_stacks_own(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster of another stack, one that no stack is known to have made, or no cluster at all."""
    removed: list[object] = []
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", removed.append)
    monkeypatch.setattr(down, "cluster_of", lambda _: {"kind": "embedded", "name": name})
    owner.claim(state_dir() / "clusters" / "shared", "slipway/other")
    (state_dir() / "clusters" / "nobodys").mkdir()
    monkeypatch.setattr(down, "prove", lambda *_: True)
    kept = set(state_dir().rglob("*"))
    assert down.down("dev") == 0, capsys.readouterr().err
    assert removed == []
    assert set(state_dir().rglob("*")) >= kept


def test_down_first_copies_each_runs_files_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"": "there/mine", "succeeded": "there/mine/succeeded"}
    fetch = Mock(lost_with=lambda *_: ([("mine", run) for run in places], ""))
    monkeypatch.setattr(down, "fetch", fetch)
    down._keep_files("dev", "there")
    copied = [each.args for each in fetch.fetch.call_args_list]
    assert copied == [("dev", "mine", place, run) for run, place in places.items()]


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
    run = Mock(return_value=0)
    monkeypatch.setattr(Cli, "run", run)
    monkeypatch.setattr(down, "cluster_of", lambda _stack: {"kind": kind})
    assert down._destroy_resources(Cli("dev")) == 0
    assert ("PULUMI_K8S_DELETE_UNREACHABLE" in run.call_args.kwargs) is forgets


def test_down_removes_what_runs_of_a_cluster_whose_directory_was_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that it has on the machine is named after that directory."""
    gone: list[Path] = []
    left = {"processes": ["1"], "mounts": []}
    monkeypatch.setattr("clusters.embedded.cluster.remains", lambda *_: {} if gone else left)
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", gone.append)
    assert down.down("dev") == 0
    assert gone == [state_dir() / "clusters" / "dev"]
    said = f"Removing the rest of the cluster in the deleted directory {gone[0]}."
    assert said in capsys.readouterr().err


KUBECONFIG = {"kind": "kubeconfig", "context": "team"}


@pytest.fixture
def checkout(folder: Path) -> Path:
    (folder / "stacks").mkdir()
    template = "config: {'slipway:cluster': {kind: kind, name: from-template}}"
    (folder / "stacks" / "kind.yaml").write_text(template)
    return folder


@pytest.fixture
def last(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the settings that `pulumi config refresh` knows of each stack's last update."""
    known: dict[str, Any] = {}

    def query(cli: Cli, *command: str, **_given: str) -> str:
        assert command == ("config", "refresh")
        if cli.stack not in known:
            raise CommandFailed("no previous deployment")
        text = yaml.safe_dump({"config": {"slipway:cluster": known[cli.stack]}})
        (checkout / f"Pulumi.{cli.stack}.yaml").write_text(text)
        return ""

    monkeypatch.setattr(Cli, "query", query)
    return known


def provided(stack: str, checkout: Path) -> tuple[Mapping[str, Any], str]:
    """Return the cluster that is known while the stack is taken down, and what is printed."""
    file = checkout / f"Pulumi.{stack}.yaml"
    with redirect_stderr(StringIO()) as printed, temporary_config(stack):
        cluster = cluster_of(stack)
    assert not file.exists()
    return cluster, printed.getvalue().rstrip("\n")


def test_without_the_file_the_settings_are_the_last_updates_or_else_the_repositorys(
    checkout: Path, last: dict[str, Any]
) -> None:
    keep_state("kind")
    assert provided("kind", checkout)[0] == {"kind": "kind", "name": "from-template"}
    last["kind"] = KUBECONFIG
    cluster, printed = provided("kind", checkout)
    assert cluster == KUBECONFIG
    assert printed.startswith("Pulumi.kind.yaml is missing; using the settings")
    with pytest.raises(KeyboardInterrupt), temporary_config("kind"):
        raise KeyboardInterrupt
    assert not (checkout / "Pulumi.kind.yaml").exists()


@pytest.mark.usefixtures("last")
def test_what_cannot_be_known_is_to_be_written_by_the_user(checkout: Path) -> None:
    keep_state("gone")
    with pytest.raises(CommandError) as unknown:
        provided("gone", checkout)
    assert "no previous deployment\nCopy a file from stacks/, restore" in str(unknown.value)
    file = checkout / "Pulumi.gone.yaml"
    file.write_text("config: {}")
    with temporary_config("gone"):
        assert file.read_text() == "config: {}"
    assert file.exists()


def test_down_destroys_a_stack_whose_file_is_gone_and_looks_for_what_is_left_of_its_cluster(
    last: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_state("gone-file")
    last["gone-file"] = {"kind": "embedded", "name": "mine"}
    run, prove = Mock(return_value=0), Mock(return_value=True)
    monkeypatch.setattr(Cli, "run", run)
    monkeypatch.setattr(down, "prove", prove)
    assert down.down("gone-file") == 0
    assert [each.args[0] for each in run.call_args_list] == ["destroy", "stack"]
    assert "--preserve-config" in run.call_args.args
    prove.assert_called_once_with("gone-file", {"kind": "embedded", "name": "mine"})
    assert not state_file("gone-file").exists()


@pytest.mark.usefixtures("checkout")
def test_other_commands_say_how_to_get_the_file_back_or_to_take_the_stack_down() -> None:
    keep_state("gone")
    with pytest.raises(CommandError) as gone:
        check("gone")
    message = str(gone.value)
    assert message.startswith("Pulumi.gone.yaml is missing, but the stack gone still exists.")
    assert "pulumi config refresh --stack gone\n" in message
    assert message.endswith("make down STACK=gone")
