"""A selection that matches no test is a failure, so that a typo can't look like success."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "selection",
    [
        ["tests/unit", "-k", "no_test_is_called_that"],
        ["tests/unit", "-m", "long"],
        ["tests/unit/test_selection.py", "--deselect", "tests/unit/test_selection.py"],
        ["tests/nowhere"],
        ["tests/unit/test_selection.py::test_that_is_not_there"],
        ["tests/unit", "-m", "lnog"],
    ],
)
def test_pytest_fails_when_nothing_is_selected(selection: list[str], root: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *selection],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode != 0, finished.stdout
