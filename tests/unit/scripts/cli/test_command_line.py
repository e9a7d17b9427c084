"""The command line and the functions behind it belong together, and load what they need."""

import inspect
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.cli.__main__ import slipway


def called(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[str, str, dict[str, Any]]:
    """Return command, function and arguments that a line of words leads to."""
    found: list[Any] = []

    def call(*given: Any) -> int:
        found.append(given)
        return 0

    monkeypatch.setattr("scripts.cli.calls.call", call)
    outcome = CliRunner().invoke(slipway, words)
    assert outcome.exit_code == 0, outcome.output
    command, function, arguments = found[0]
    return command, function, arguments


@pytest.mark.parametrize("name", slipway.commands)
def test_each_command_has_its_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, function, arguments = called(monkeypatch, name)
    assert command == name
    inspect.signature(resolve_name(f"scripts.{function}")).bind(**arguments)  # or it raises


def test_what_is_given_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a path in the home directory, which the shell has left as it is."""
    assert called(monkeypatch, "down", "--keep=~/backup")[2]["keep"] == f"{Path.home()}/backup"
    line = "logs mine --rank 1 --follow=0 --stack other"
    given = called(monkeypatch, *line.split())[2]
    assert given == {"job": "mine", "rank": 1, "follow": "0", "stack": "other"}
    # What follows `--args` is the program's own.
    line = "run train.py --workers 1 --set cpu=1 --args --workers 9"
    given = called(monkeypatch, *line.split())[2]
    own = {"settings": ("cpu=1",), "python": "", "args": ["--workers", "9"]}
    assert given == {"script": "train.py", "workers": 1, **own}


def test_a_shell_completes_the_stacks(folder: Path) -> None:
    for name in ("dev", "deep", "other"):
        (folder / f"Pulumi.{name}.yaml").touch()
    words = {"COMP_WORDS": "slipway up --stack de", "COMP_CWORD": "3"}
    variables = {"_SLIPWAY_COMPLETE": "bash_complete", **words}
    outcome = CliRunner().invoke(slipway, env=variables, prog_name="slipway")
    assert outcome.output.split() == ["plain,deep", "plain,dev"]


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
