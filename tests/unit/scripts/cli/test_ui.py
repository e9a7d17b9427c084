"""`make ui` says where runs are tracked, or how to have them tracked."""

import socket
from pathlib import Path

import pytest
import yaml

from jobs.result import RunResult
from scripts.cli import ui
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError

PAGE = "http://localhost:5000/#/experiments/1/runs/abc"


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a stack `mine`, with a cluster alone, whose job `trained` was tracked."""
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    jobs = {
        "trained": JobState(
            "trained", {"namespace": "n"}, RunResult(state="Succeeded", tracking=PAGE)
        ),
        "running": JobState("running", {"namespace": "n"}),
    }
    state = StackState("a kubeconfig", "n", jobs)
    monkeypatch.setattr(ui, "read_state", lambda *_, **__: state)
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump({"config": {"slipway:cluster": {"kind": "embedded"}}}))
    return file


def tracks(file: Path, tracking: object) -> None:
    file.write_text(yaml.safe_dump({"config": {"slipway:tracking": tracking}}))


def test_without_tracking_it_says_how_to_turn_it_on(stack: Path) -> None:
    assert stack.exists()
    with pytest.raises(CommandError) as caught:
        ui.show("mine", "", 5000)
    text = str(caught.value)
    assert "slipway:tracking: {kind: mlflow}" in text
    assert "Pulumi.mine.yaml" in text
    assert "make up STACK=mine" in text


def test_wrong_settings_are_reported_by_key(stack: Path) -> None:
    tracks(stack, {"kind": "mlfow"})
    with pytest.raises(CommandError, match=r"slipway:tracking\.kind"):
        ui.show("mine", "", 5000)


def test_an_unknown_job_is_named_with_those_that_there_are(stack: Path) -> None:
    tracks(stack, {"kind": "mlflow"})
    with pytest.raises(CommandError, match=r"no job 'traned'.*Did you mean trained"):
        ui.show("mine", "traned", 5000)


@pytest.mark.parametrize(
    ("tracking", "job", "shown"),
    [
        ({"kind": "mlflow", "url": "https://m.example"}, "", "https://m.example"),
        ({"kind": "wandb"}, "", "https://wandb.ai"),
        ({"kind": "wandb"}, "trained", PAGE),
        ({"kind": "tensorboard"}, "trained", "make fetch JOB=trained TO=trained STACK=mine"),
    ],
)
def test_a_server_elsewhere_is_named(
    stack: Path, capfd: pytest.CaptureFixture[str], tracking: object, job: str, shown: str
) -> None:
    tracks(stack, tracking)
    assert ui.show("mine", job, 5000) == 0
    assert shown in "".join(capfd.readouterr())


def test_a_port_that_another_program_has_is_refused_with_what_to_do(stack: Path) -> None:
    tracks(stack, {"kind": "mlflow"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Port {port} .*PORT={port + 1}"):
            ui.show("mine", "", port)


def test_a_jobs_page_is_at_the_port_that_is_forwarded() -> None:
    text = ui.announcement("mine", "trained", PAGE, 5001)
    assert "http://localhost:5001/#/experiments/1/runs/abc" in text
    assert "http://localhost:5001 (Ctrl-C" in ui.announcement("mine", "", "", 5001)
    assert "experiment mine/running" in ui.announcement("mine", "running", "", 5001)
