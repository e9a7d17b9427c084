"""A command loads what it needs: all together take two seconds."""

import subprocess
import sys

import pytest

_HEAVY = ("clusters", "grpc", "infra.settings", "kubernetes", "pulumi", "pydantic", "torch")


@pytest.mark.parametrize("module", ["__main__", "commands", "state", "runs.logs", "runs.results"])
def test_a_command_loads_nothing_that_only_another_one_needs(module: str) -> None:
    program = (
        f"import sys, scripts.cli.{module}; "
        f"print(*[name for name in {_HEAVY!r} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert loaded.split() == []
