"""A stack whose Pulumi.<stack>.yaml is gone can be taken down; all else says how to get it back."""

import json
from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cli import config, down
from scripts.cli.backend import Cli, bookkeeping, state_file
from scripts.cli.config import StackFileError, check, cluster_of
from scripts.cli.down import cluster_in, temporary_config

KUBECONFIG = {"kind": "kubeconfig", "context": "team"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stacks").mkdir()
    template = {"config": {"slipway:cluster": {"kind": "kind", "name": "from-template"}}}
    (tmp_path / "stacks" / "kind.yaml").write_text(yaml.safe_dump(template))
    monkeypatch.setattr(config, "CHECKOUT", tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def resource(type_: str, name: str = "x") -> dict[str, Any]:
    return {"type": type_, "urn": f"urn:pulumi:gone::slipway::{type_}::{name}"}


def there(stack: str = "gone", **deployment: Any) -> None:
    """Let a stack be in the state."""
    state_file(stack).parent.mkdir(parents=True)
    state_file(stack).write_text(json.dumps({"checkpoint": {"latest": deployment}}))


def changed(*configs: Mapping[str, Any], stack: str = "gone") -> None:
    """Let a stack have a history, the oldest first."""
    directory = bookkeeping("history", "slipway", stack)
    directory.mkdir(parents=True)
    for number, settings in enumerate(configs):
        file = directory / f"{stack}-17953179{number}.history.json"
        file.write_text(json.dumps({"kind": "update", "config": settings}))


def lend(stack: str, checkout: Path) -> tuple[Mapping[str, Any], str]:
    """Return what the cluster is said to be while the stack is taken down, and what was told."""
    file = checkout / f"Pulumi.{stack}.yaml"
    with redirect_stderr(StringIO()) as told, temporary_config(stack):
        cluster = cluster_of(stack) if file.exists() else {}
    assert not file.exists()
    return cluster, told.getvalue().rstrip("\n")


@pytest.mark.parametrize("kind", ["Embedded", "Kind", "Minikube"])
def test_a_cluster_of_the_stacks_own_is_known_from_its_state(kind: str, checkout: Path) -> None:
    there(resources=[resource(f"slipway:clusters:{kind}", "mine")])
    cluster, told = lend("gone", checkout)
    assert cluster == {"kind": kind.lower(), "name": "mine"}
    assert told.startswith("Pulumi.gone.yaml is missing; using the cluster")


def test_a_cluster_that_a_killed_run_had_begun_to_make_is_known_too() -> None:
    pending = {"type": "creating", "resource": resource("slipway:clusters:Kind", "half")}
    state = {"deployment": {"resources": None, "pending_operations": [pending]}}
    assert cluster_in(state) == {"kind": "kind", "name": "half"}


@pytest.mark.parametrize("deployment", [None, {}, {"resources": [resource("slipway:jobs:Gate")]}])
def test_a_state_without_a_cluster_of_its_own_names_none(deployment: Any) -> None:
    assert cluster_in({"deployment": deployment}) is None


def test_somebody_elses_cluster_is_known_from_the_latest_change_that_had_settings(
    checkout: Path,
) -> None:
    there(resources=[resource("slipway:jobs:PyTorchJob")])
    changed({"slipway:cluster": {"kind": "aks"}}, {"slipway:cluster": KUBECONFIG}, {})
    assert lend("gone", checkout)[0] == KUBECONFIG


def test_what_cannot_be_known_is_said_and_the_stack_goes_all_the_same(checkout: Path) -> None:
    there(resources=[resource("slipway:jobs:PyTorchJob")])
    cluster, told = lend("gone", checkout)
    assert cluster == {}
    assert "whether anything else is left in that cluster can't be checked" in told


def test_an_empty_stack_needs_nothing_to_be_known(checkout: Path) -> None:
    there()
    assert lend("gone", checkout) == ({}, "")


def test_the_repositorys_file_counts_only_where_the_stack_itself_knows_nothing(
    checkout: Path,
) -> None:
    there("kind")
    assert lend("kind", checkout)[0] == {"kind": "kind", "name": "from-template"}
    changed({"slipway:cluster": KUBECONFIG}, stack="kind")
    assert lend("kind", checkout)[0] == KUBECONFIG


def test_a_file_that_is_there_is_the_persons_and_stays(checkout: Path) -> None:
    there(resources=[resource("slipway:clusters:Kind", "mine")])
    file = checkout / "Pulumi.gone.yaml"
    file.write_text("config: {}")
    with temporary_config("gone"):
        assert file.read_text() == "config: {}"
    assert file.exists()


def test_a_file_that_was_lent_is_gone_again_after_a_failure_too(checkout: Path) -> None:
    there(resources=[resource("slipway:clusters:Kind", "mine")])
    with pytest.raises(KeyboardInterrupt), temporary_config("gone"):
        raise KeyboardInterrupt
    assert not (checkout / "Pulumi.gone.yaml").exists()


@pytest.mark.usefixtures("checkout")
def test_a_stack_with_neither_file_nor_state_is_none() -> None:
    with (
        pytest.raises(StackFileError, match=r"There is no stack 'knid'\. Did you mean kind\?"),
        temporary_config("knid"),
    ):
        pytest.fail("went on")


def test_down_destroys_a_stack_whose_file_is_gone_and_looks_for_what_is_left_of_its_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there("gone-file", resources=[resource("slipway:clusters:Embedded", "mine")])
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
    there()
    with pytest.raises(StackFileError) as gone:
        check("gone")
    said = str(gone.value)
    assert said.startswith("Pulumi.gone.yaml is missing, but the stack gone still exists.")
    assert "Copy one of stacks/" in said
    assert said.endswith("make down STACK=gone")
    changed({"slipway:cluster": KUBECONFIG})
    with pytest.raises(StackFileError, match=r"pulumi config refresh --stack gone\n"):
        check("gone")
