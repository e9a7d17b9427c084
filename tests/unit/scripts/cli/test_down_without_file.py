"""A stack whose Pulumi.<stack>.yaml is gone can be taken down; all else says how to get it back."""

from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.process import CommandFailed
from scripts.cli import down
from scripts.cli.backend import Cli, state_file
from scripts.cli.config import check, cluster_of
from scripts.cli.down import temporary_config
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state

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


def test_the_settings_are_the_last_updates_or_else_the_repositorys(
    checkout: Path, last: dict[str, Any]
) -> None:
    keep_state("kind")
    assert provided("kind", checkout)[0] == {"kind": "kind", "name": "from-template"}
    last["kind"] = KUBECONFIG
    cluster, printed = provided("kind", checkout)
    assert cluster == KUBECONFIG
    assert printed.startswith("Pulumi.kind.yaml is missing; using the settings")


@pytest.mark.usefixtures("last")
def test_what_cannot_be_known_is_to_be_written_by_the_user(checkout: Path) -> None:
    keep_state("gone")
    with pytest.raises(CommandError) as unknown:
        provided("gone", checkout)
    assert "no previous deployment\nCopy a file from stacks/, set" in str(unknown.value)


def test_a_file_that_is_there_is_the_persons_and_stays(checkout: Path) -> None:
    keep_state("gone")
    file = checkout / "Pulumi.gone.yaml"
    file.write_text("config: {}")
    with temporary_config("gone"):
        assert file.read_text() == "config: {}"
    assert file.exists()


def test_a_temporary_file_goes_after_a_failure(checkout: Path, last: dict[str, Any]) -> None:
    keep_state("gone")
    last["gone"] = KUBECONFIG
    with pytest.raises(KeyboardInterrupt), temporary_config("gone"):
        raise KeyboardInterrupt
    assert not (checkout / "Pulumi.gone.yaml").exists()


def test_down_destroys_a_stack_whose_file_is_gone_and_looks_for_what_is_left_of_its_cluster(
    last: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_state("gone-file")
    last["gone-file"] = {"kind": "embedded", "name": "mine"}
    ran: list[str] = []
    proven: list[Mapping[str, Any]] = []

    def run(_self: Cli, *command: str, **_given: str) -> int:
        ran.append(command[0])
        return 0

    def prove(_stack: str, cluster: Mapping[str, Any]) -> bool:
        proven.append(cluster)
        return True

    monkeypatch.setattr(Cli, "run", run)
    monkeypatch.setattr(down, "prove", prove)
    assert down.down("gone-file") == 0
    assert ran == ["destroy", "stack"]
    assert proven == [{"kind": "embedded", "name": "mine"}]
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
