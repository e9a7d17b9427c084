"""A look into a job's pods is refused unless the stack allows it, and names what it can't show."""

import json
import re
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cli.runs import inside
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.jobs_objects import RUNNING, ended, pod
from tests.unit.shell_program import shell_program

_KUBECTL = """
case "$*" in
    *" get pods "*) cat {pods} ;;
    *" port-forward "*) echo "$@" >> {calls}; [ -e {calls}.2 ] && echo "has ended" >&2 && exit 1
        touch {calls}.2; echo "Forwarding from 127.0.0.1" ;;
    *worker-1*) echo "No module named slipway_trainer.inside" >&2; exit 1 ;;
    *) echo "stands in train"; echo "$@" >> {calls} ;;
esac
"""


@pytest.fixture
def calls(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What kubectl is called with: of three ranks two run, and one has an image of its own."""
    allow(folder, exec=True)
    jobs = {"mine": JobState("mine", {"namespace": "n", "job": {"workers": 3}})}
    state = StackState("a kubeconfig", "n", jobs)
    monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)
    states: list[dict[str, Any]] = [RUNNING, RUNNING, RUNNING, ended(0)]
    pods = [pod(rank, state=each) for rank, each in enumerate(states)]
    (tmp_path / "pods.json").write_text(json.dumps({"items": pods}))
    called = tmp_path / "calls"
    script = _KUBECTL.format(pods=tmp_path / "pods.json", calls=called)
    program = shell_program(tmp_path / "kubectl", script)
    monkeypatch.setattr(inside, "kubectl", lambda _kubeconfig: nullcontext([str(program)]))
    return called


def allow(project: Path, **settings: object) -> None:
    config: dict[str, object] = {"slipway:cluster": {"kind": "embedded"}}
    config |= {f"slipway:{name}": value for name, value in settings.items()}
    (project / "Pulumi.mine.yaml").write_text(yaml.safe_dump({"config": config}))


@pytest.mark.parametrize("settings", [{}, {"exec": "false"}])
def test_a_missing_exec_is_named(calls: Path, folder: Path, settings: dict[str, object]) -> None:
    allow(folder, **settings)
    for command in (inside.stacks, inside.shell):
        with pytest.raises(CommandError, match=r"Pulumi\.mine\.yaml.*\n  slipway:exec: true\n"):
            command("mine", "mine", 1)
    assert not calls.exists()


@pytest.mark.usefixtures("calls")
def test_each_rank_shows_where_it_stands_or_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside.stacks("mine", "mine", None) == 1
    shown = capsys.readouterr().out
    assert "--- rank 0 (mine-master-0)\nstands in train\n" in shown
    assert "--- rank 1 (mine-worker-0)\nstands in train\n" in shown
    unread = r"--- rank 2 \(mine-worker-1\)\nThe call stack can't be read: .*No module"
    assert re.search(unread, shown)
    assert "add py-spy to it" in shown
    assert "--- rank 3\nThe rank is not running.\n" in shown
    assert inside.stacks("mine", "mine", 1) == 0
    with pytest.raises(CommandError, match=r"Rank 3 of mine is not running.*make results JOB=mine"):
        inside.shell("mine", "mine", 3)
    with pytest.raises(CommandError, match=r"Job mine has no rank 4\. It has ranks 0 to 3\."):
        inside.shell("mine", "mine", 4)


def test_a_debugger_gets_the_waiting_rank_and_its_source_paths(
    calls: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=r"Job mine does not set `debug`.*`debug: 0`"):
        inside.debug("mine", "mine", 5678)
    (folder / "code").mkdir()
    (folder / "code/train.py").touch()
    declared = {"workers": 3, "debug": 1, "script": "code/train.py"}
    jobs = {"mine": JobState("mine", {"namespace": "n", "job": declared})}
    state = StackState("a kubeconfig", "n", jobs)
    monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(CommandError, match=r"has ended\n.*make debug JOB=mine STACK=mine"):
        inside.debug("mine", "mine", port)
    where = f"port-forward --address=127.0.0.1 pod/mine-worker-0 {port}:5678"
    assert calls.read_text().splitlines() == [f"--namespace=n {where}"] * 2
    shown = capsys.readouterr().out
    assert f"Rank 1 of mine is at localhost:{port} (Ctrl-C disconnects)." in shown
    entry = json.loads(shown.partition("launch.json:\n")[2])
    assert entry["connect"] == {"host": "localhost", "port": port}
    places = {"localRoot": str(folder / "code"), "remoteRoot": "/work/src/mine"}
    assert entry["pathMappings"] == [places]
