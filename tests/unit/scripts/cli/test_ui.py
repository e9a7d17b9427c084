"""`make ui` says where runs are tracked, or how to have them tracked."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.result import RunResult
from scripts.cli import ui
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError

PAGE = "http://localhost:5000/#/experiments/1/runs/abc"
Tracked = Callable[..., None]


@pytest.fixture
def tracked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Tracked:
    """Return what writes the file of a stack `mine`, whose job `trained` was tracked."""
    ended = RunResult(state="Succeeded", tracking=PAGE)
    jobs = {"trained": JobState("trained", {"namespace": "n"}, ended)}
    monkeypatch.setattr(ui, "read_state", lambda *_, **__: StackState("a kubeconfig", "n", jobs))

    def write(**tracking: str) -> None:
        config = {"config": {"slipway:tracking": tracking} if tracking else {}}
        (folder / "Pulumi.mine.yaml").write_text(yaml.safe_dump(config))

    return write


@pytest.mark.parametrize(
    ("tracking", "job", "message"),
    [
        ({}, "", r"(?s)Pulumi.mine.yaml.*make up STACK=mine.*slipway:tracking: {kind: mlflow}"),
        ({"kind": "mlfow"}, "", r"slipway:tracking\.kind"),
        ({"kind": "mlflow"}, "traned", r"no job 'traned'.*Did you mean trained"),
    ],
)
def test_without_tracking_or_its_job_the_next_step_is_named(
    tracked: Tracked, tracking: dict[str, str], job: str, message: str
) -> None:
    tracked(**tracking)
    with pytest.raises(CommandError, match=message):
        ui.show("mine", job, 5000)


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
    tracked: Tracked, capfd: pytest.CaptureFixture[str], tracking: Any, job: str, shown: str
) -> None:
    tracked(**tracking)
    assert ui.show("mine", job, 5000) == 0
    assert shown in "".join(capfd.readouterr())


def test_a_port_that_another_program_has_is_refused_with_what_to_do(tracked: Tracked) -> None:
    tracked(kind="mlflow")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Port {port} .*PORT={port + 1}"):
            ui.show("mine", "", port)


def test_a_jobs_page_is_at_the_port_that_is_forwarded() -> None:
    text = ui.announcement("mine", "trained", PAGE, 5001)
    assert "http://localhost:5001/#/experiments/1/runs/abc" in text
    assert "http://localhost:5001 (Ctrl-C" in ui.announcement("mine", "", "", 5001)
    assert "experiment mine/running" in ui.announcement("mine", "running", "", 5001)
