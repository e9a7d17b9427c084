"""`make down` ends by looking for what is left of the stack, and says it either way."""

import signal
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from clusters import owner
from clusters.kinds import CLUSTERS
from core.paths import state_dir
from scripts.cli import down
from scripts.cli.backend import INTERRUPTED, lock_directory, state_file
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


def test_that_nothing_is_left_is_one_line_with_what_was_looked_for() -> None:
    proven, said = proof(EMBEDDED)
    assert proven
    assert said.startswith("Nothing is left of dev: 0 processes, 0 network namespaces, 0 mounts")
    assert "0 files" in said
    assert "\n" not in said


def test_all_that_is_left_has_its_remedy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down, "orphans", lambda _checkout: [4711])
    left = [
        state / "clusters" / "dev" / "etcd",
        state / "runs" / "dev" / "mine",
        lock_directory("dev") / "a.json",
    ]
    for path in left:
        path.mkdir(parents=True)
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
    ending = [[4711], [4711], []]
    monkeypatch.setattr(down, "orphans", lambda _checkout: ending.pop(0) if ending else [])
    monkeypatch.setattr(down, "_WAIT_SECONDS", 10)
    assert proof(EMBEDDED)[0]
    assert ending == []


def test_a_cluster_of_another_name_is_another_cluster(state: Path) -> None:
    (state / "clusters" / "dev").mkdir(parents=True)
    assert proof({**EMBEDDED, "name": "other"})[0]
    assert not proof(EMBEDDED)[0]


@pytest.mark.parametrize("cluster", [{}, {"kind": "embeded"}, {"kind": "embedded", "name": "A/B"}])
def test_settings_without_a_cluster_have_none_to_look_for(cluster: Mapping[str, Any]) -> None:
    proven, said = proof(cluster)
    assert proven
    assert said == "Nothing is left of dev: 0 processes, 0 files."


def test_each_kind_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def remains_of(_options: object, called: str) -> Mapping[str, list[str]]:
        return {"objects with Slipway's labels": [f"Namespace of {called}: kubectl delete …"]}

    kinds: Any = CLUSTERS
    monkeypatch.setitem(kinds, "embedded", replace(CLUSTERS["embedded"], remains=remains_of))
    proven, said = proof(EMBEDDED)
    assert not proven
    assert "Namespace of slipway/dev: kubectl delete" in said


@dataclass
class FakeCli:
    """Stands for the CLI: destroys fail as often as told."""

    failing: Sequence[int]
    ran: list[str] = field(default_factory=list)
    stack: str = "dev"

    def run(self, *arguments: str, **_variables: str) -> int:
        self.ran.append(arguments[0])
        codes = [0] * self.ran.count("destroy")
        codes[: len(self.failing)] = list(self.failing)[: len(codes)]
        return codes[-1] if arguments[0] == "destroy" else 0


@pytest.fixture
def removed(state: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cluster and its stack are there; the list tells whether the cluster was removed."""
    owner.claim(state / "clusters" / "dev", "slipway/dev")
    calls: list[str] = []

    def remove(_stack: str, what: str) -> int:
        calls.append(what)
        return 0

    monkeypatch.setattr(down, "_remove_cluster", remove)
    return calls


def test_what_a_destroy_left_goes_with_the_embedded_cluster(removed: list[str]) -> None:
    cli = FakeCli(failing=[255])
    assert down._destroy(cli) == 0  # type: ignore[arg-type]
    assert removed == ["the cluster in"]
    assert cli.ran == ["destroy", "destroy", "stack"]


def test_a_destroy_that_the_person_interrupted_is_not_gone_on_with(removed: list[str]) -> None:
    cli = FakeCli(failing=[INTERRUPTED])
    assert down._destroy(cli) == 128 + signal.SIGINT  # type: ignore[arg-type]
    assert removed == []
    assert "stack" not in cli.ran


def test_a_protected_resource_keeps_the_cluster(removed: list[str]) -> None:
    keep_state(resources=[resource("a:b:C", "keep", protect=True)])
    cli = FakeCli(failing=[255])
    assert down._destroy(cli) == 255  # type: ignore[arg-type]
    assert removed == []
