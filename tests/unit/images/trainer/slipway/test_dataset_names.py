"""A result names the data set that was read, whatever the program says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT

_READS = """
import json, os, sys
from slipway import termination
from slipway_trainer.training import report
termination.name_stand_in(".")
termination.name_stand_in(".")
"""
_SAYS = {"rank": 3, "accuracy": 0.5, "dataset": "cifar10"}


def _ran(directory: Path, program: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Return the message and the process of a program that reads a stand-in and goes on so."""
    message = directory / "message"
    message.touch()
    (directory / "DATASET").write_text('{"name": "shirts"}')
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT / "images/trainer"),
        "TERMINATION_LOG": str(message),
        "RANK": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", _READS + program],
        env=environment, cwd=directory, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    return json.loads(message.read_text() or "{}"), done


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(f"report.run(lambda events: {_SAYS})", id="reports"),
        pytest.param(f"open(os.environ['TERMINATION_LOG'], 'w').write(json.dumps({_SAYS}))",
                     id="writes the message itself"),
        pytest.param(f"termination.leave({_SAYS})\nsys.exit(0)", id="leaves it and exits"),
    ],
)  # fmt: skip
def test_what_a_program_says_is_corrected(tmp_path: Path, program: str) -> None:
    message, done = _ran(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert message == {**_SAYS, "dataset": "shirts"}
    assert done.stderr.count("contains shirts instead of CIFAR-10") == 1
    for line in done.stdout.splitlines():
        assert json.loads(line)["dataset"] == "shirts"


def test_of_a_program_that_says_nothing_it_is_the_result(tmp_path: Path) -> None:
    message, done = _ran(tmp_path, "print('trained')")
    assert done.returncode == 0, done.stderr
    assert message == {"rank": 3, "dataset": "shirts"}


def test_a_failed_program_is_judged_by_its_traceback(tmp_path: Path) -> None:
    message, done = _ran(tmp_path, "raise ValueError('a mistake')")
    assert done.returncode == 1
    assert message == {}
