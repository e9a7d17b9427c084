"""`make kubeconfig` adds one context to the person's kubeconfig, and nothing else of it changes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import kube
from core.paths import cache_dir
from scripts.cli import kubeconfig
from scripts.cli.kubeconfig import merge
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's own, which names files beside it."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir().parent))  # where kubectl is noted
    monkeypatch.setenv("HOME", str(tmp_path))
    stacks(monkeypatch, "https://127.0.0.1:4711")
    place = tmp_path / ".kube" / "config"
    place.parent.mkdir()
    mine = {"client-certificate": "mine.crt"}
    place.write_text(kube.kubeconfig("mine", {"server": "https://mine"}, mine))
    return place


def stacks(monkeypatch: pytest.MonkeyPatch, server: str | None) -> None:
    """Let every stack's cluster be at `server`."""
    text = kube.kubeconfig("kind-x", {"server": server}, {"token": "made-up"})
    state = StackState(kubeconfig=None if server is None else text)
    monkeypatch.setattr(kubeconfig, "read_state", lambda _stack, **_secrets: state)


def parts(file: Path, section: str) -> dict[str, Any]:
    found = yaml.safe_load(file.read_text())[section]
    return {each["name"]: each for each in found}


def test_the_cluster_is_added_under_the_stacks_name_and_what_it_prints_undoes_that(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = parts(file, "contexts"), parts(file, "clusters")
    assert merge("kind") == 0
    cluster = parts(file, "clusters")["slipway-kind"]["cluster"]
    assert cluster == {"server": "https://127.0.0.1:4711"}
    assert parts(file, "users")["slipway-kind"]["user"] == {"token": "made-up"}
    assert yaml.safe_load(file.read_text())["current-context"] == "mine"
    certificate = parts(file, "users")["mine"]["user"]["client-certificate"]
    assert (file.parent / certificate).resolve() == (file.parent / "mine.crt").resolve()
    assert file.stat().st_mode & 0o777 == 0o600

    # Again, it brings it up to date.
    stacks(monkeypatch, "https://127.0.0.1:4712")
    capsys.readouterr()
    merge("kind")
    cluster = parts(file, "clusters")["slipway-kind"]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:4712"
    assert parts(file, "contexts").keys() == {"mine", "slipway-kind"}

    _, _, undo = capsys.readouterr().out.strip().splitlines()
    subprocess.run(undo.removeprefix("Undo it: "), shell=True, check=True, capture_output=True)  # noqa: S602
    assert (parts(file, "contexts"), parts(file, "clusters")) == before
    assert parts(file, "users").keys() == {"mine"}


@pytest.mark.parametrize("given", [None, "{}", "current-context: gone"])
def test_where_kubectl_has_no_context_that_works_the_new_one_is_it(
    file: Path, given: str | None
) -> None:
    """There is no file yet, or an empty one, or its current context was deleted."""
    file.unlink() if given is None else file.write_text(given)
    merge("kind")
    assert parts(file, "contexts").keys() == {"slipway-kind"}
    assert yaml.safe_load(file.read_text())["current-context"] == "slipway-kind"


@pytest.mark.parametrize("given", ["", "mine"])
def test_the_first_file_of_kubeconfig_is_the_users_and_a_context_of_another_stays_the_current_one(
    file: Path, given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = file.with_name("other")
    other.write_text(f"current-context: {given}")
    monkeypatch.setenv("KUBECONFIG", f"{other}:{file}")
    merge("kind")
    assert parts(other, "contexts").keys() == {"slipway-kind"}
    assert yaml.safe_load(other.read_text())["current-context"] == given
    assert "; the current context is still mine; " in capsys.readouterr().out


def test_without_a_cluster_or_with_a_file_that_kubectl_cannot_read_nothing_changes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("{")
    with pytest.raises(CommandError, match="kubectl can't merge"):
        merge("kind")
    stacks(monkeypatch, None)
    with pytest.raises(CommandError, match=r"make up STACK=kind"):
        merge("kind")
    assert file.read_text() == "{"
