"""A selection that matches no test is a failure, so that a typo can't look like success."""

import os
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

THIS = "tests/unit/test_selection.py"


@pytest.mark.parametrize(
    ("selection", "code"),
    [
        (["tests/nowhere"], pytest.ExitCode.USAGE_ERROR),
        ([THIS, "-m", "lnog"], pytest.ExitCode.NO_TESTS_COLLECTED),
    ],
)
def test_an_empty_selection_fails(selection: list[str], code: pytest.ExitCode, root: Path) -> None:
    # Without plugins, whose import would take most of the time.
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *selection],
        cwd=root, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == code, finished.stdout


def test_no_folder_of_tests_is_left_out(root: Path, pytestconfig: pytest.Config) -> None:
    """By default pytest looks into no folder that is named build."""
    folders = {part for file in (root / "tests").rglob("test_*.py") for part in file.parts}
    skipped = pytestconfig.getini("norecursedirs")
    assert not [name for name in folders if any(map(PurePath(name).match, skipped))]
