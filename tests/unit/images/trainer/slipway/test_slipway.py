"""A program tells its numbers with `slipway`, and nothing in there fails it."""

import ast
import json
import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT

_TRAINER = CHECKOUT / "images/trainer"
_ON_USE = {"checkpoint_store": {"torch"}, "worlds": {"torch"}}
"""What a module imports once it is used: who saves a checkpoint, or trains, has torch."""
_TRAINS = """
import slipway
for epoch, loss in ((1, 0.5), (2, 0.4), (2, 0.31)):
    slipway.log(epoch=epoch, val_loss=loss, lr=0.1)
slipway.log(step=7, speed=100)
slipway.finish(accuracy=0.98, perplexity=12.4)
"""


def ran(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_TRAINER), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=20, check=False
    )


@pytest.fixture
def message(tmp_path: Path) -> Path:
    path = tmp_path / "message"
    path.touch()
    return path


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_numbers_are_events_and_at_the_end_the_result_with_their_history(message: Path) -> None:
    """A program reports numbers of any name from any rank, in a pod and outside."""
    done = ran(_TRAINS, TERMINATION_LOG=str(message), RANK="0", WORLD_SIZE="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(message.read_text()) == {
        "rank": 0,
        "metrics": {
            "val_loss": 0.31, "lr": 0.1, "speed": 100, "accuracy": 0.98, "perplexity": 12.4
        },
        "epoch_metrics": {"val_loss": [0.5, 0.31], "lr": [0.1, 0.1]},
    }  # fmt: skip
    first, *_, last = events(done)
    assert first["event"] == "metrics"
    assert (first["rank"], first["epoch"]) == (0, 1)
    assert first["metrics"] == {"val_loss": 0.5, "lr": 0.1}
    assert (last["step"], last["metrics"]) == (7, {"speed": 100})


def test_without_finish_what_was_logged_is_the_result(message: Path) -> None:
    program = "import slipway; slipway.log(epoch=1, val_loss=0.3)"
    done = ran(program, TERMINATION_LOG=str(message))
    assert (done.returncode, done.stderr) == (0, "")
    left = {"rank": 0, "metrics": {"val_loss": 0.3}, "epoch_metrics": {"val_loss": [0.3]}}
    assert json.loads(message.read_text()) == left
    own = f"open({str(message)!r}, 'w').write('{{\"metrics\": {{\"f1\": 1}}}}')"
    assert ran(f"{program}; {own}", TERMINATION_LOG=str(message)).returncode == 0
    assert json.loads(message.read_text())["metrics"] == {"f1": 1}


def test_a_last_figure_that_is_no_number_hides_behind_none_before_it(message: Path) -> None:
    """A gate on it has to miss: the training diverged."""
    logs = "slipway.log(epoch=1, loss=0.3); slipway.log(epoch=2, loss=float('nan'))"
    ran(f"import slipway; {logs}", TERMINATION_LOG=str(message))
    left = json.loads(message.read_text())
    assert math.isnan(left["metrics"]["loss"])
    assert math.isnan(left["epoch_metrics"]["loss"][-1])


def test_a_program_that_failed_without_finish_leaves_no_result(message: Path) -> None:
    program = "import slipway; slipway.log(epoch=1, val_loss=0.3); raise ValueError"
    assert ran(program, TERMINATION_LOG=str(message)).returncode == 1
    assert message.read_text() == ""


def test_it_works_outside_of_a_pod(tmp_path: Path) -> None:
    done = ran(_TRAINS, TERMINATION_LOG=str(tmp_path / "missing"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(events(done)) == 4
    assert list(tmp_path.iterdir()) == []


def test_what_finish_is_called_with_later_wins_and_nothing_is_lost(message: Path) -> None:
    twice = "slipway.finish(accuracy=0.5, a=1); slipway.finish(accuracy=0.6, dataset='mine')"
    done = ran(f"import slipway; {twice}", TERMINATION_LOG=str(message), RANK="3")
    assert done.returncode == 0, done.stderr
    expected = {"rank": 3, "dataset": "mine", "metrics": {"accuracy": 0.6, "a": 1}}
    assert json.loads(message.read_text()) == expected


def test_of_many_epochs_the_latest_are_kept() -> None:
    logs = "import slipway\nfor epoch in range(1, 1203): slipway.log(epoch=epoch, a=epoch)\n"
    done = ran(f"{logs}print(slipway.reporting.logged()['epoch_metrics']['a'][::999])")
    assert done.stdout.splitlines()[-1] == "[203, 1202]"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("slipway.log(epoch=1, a='text', b=1)", "a='text' is ignored"),
        ("slipway.log(epoch='x', b=1)", "log failed with ValueError"),
        ("slipway.log(epoch=1, b=1, c=True, d=None)", "d=None is ignored"),
        ("class Two:\n  def item(self): raise RuntimeError\nslipway.log(b=1, two=Two())", "two="),
        ("slipway.finish(b=1, dataset=object())", "finish failed with TypeError"),
        ("import sys; sys.stdout = None; slipway.log(b=1)", "log failed with AttributeError"),
        ("import os; os.close(1); slipway.log(b=1)", "log failed with OSError"),
    ],
)
def test_nothing_that_goes_wrong_fails_the_training(message: Path, program: str, says: str) -> None:
    text = f"import slipway\n{program}\nimport sys; sys.stderr.write('went on')"
    done = ran(text, TERMINATION_LOG=str(message))
    assert says in done.stderr
    assert "went on" in done.stderr


def test_a_message_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    done = ran("import slipway; slipway.finish(a=1)", TERMINATION_LOG=str(tmp_path))
    assert done.returncode == 0
    assert "finish failed with IsADirectoryError" in done.stderr


def test_it_needs_nothing_but_the_python_that_its_wheel_names() -> None:
    declared = tomllib.loads((_TRAINER / "pyproject.toml").read_text())["project"]
    assert declared["requires-python"] == ">=3.9"
    assert "dependencies" not in declared
    adapters = {"accelerate", "lightning", "pytorch_lightning", "torch", "transformers"}
    known = set(sys.stdlib_module_names) | {"slipway"}
    for path in (_TRAINER / "slipway").glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [each.name for each in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        allowed = adapters if path.stem in adapters else _ON_USE.get(path.stem, set())
        assert imported - known <= allowed, path
