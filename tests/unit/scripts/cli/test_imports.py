"""A command loads what it needs: all together take two seconds."""

import subprocess
import sys

import pytest

_HEAVY = ("clusters", "grpc", "infra.settings", "kubernetes", "pulumi", "pydantic", "torch")
_MODULES = ["calls", "commands", "state", "runs.logs", "runs.results"]


def loaded(module: str) -> list[str]:
    """Return the modules that a module of the command line is imported with."""
    program = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return finished.stdout.split()


@pytest.mark.parametrize("module", _MODULES)
def test_a_command_loads_nothing_that_only_another_one_needs(module: str) -> None:
    assert not {*_HEAVY} & {*loaded(f"scripts.cli.{module}")}


def test_help_and_completion_need_click_and_nothing_else() -> None:
    """An installed command has them before its Python environment is made."""
    others = {name.partition(".")[0] for name in loaded("scripts.cli.__main__")}
    known = sys.stdlib_module_names | {"click", "core", "scripts", "__main__"}
    assert {name for name in others if not name.startswith("_")} <= known | {*loaded("site")}
