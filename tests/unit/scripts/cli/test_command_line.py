"""The command line and the functions behind it belong together."""

import inspect
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
    words = ("logs", "mine", "--rank", "1", "--follow=0", "--stack", "other")
    arguments = called(monkeypatch, *words)[2]
    assert arguments == {"job": "mine", "rank": 1, "follow": "0", "stack": "other"}


def test_what_follows_args_is_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("run", "train.py", "--workers", "1", "--set", "cpu=1", "--args", "--workers", "9")
    arguments = called(monkeypatch, *words)[2]
    assert arguments == {
        "script": "train.py",
        "workers": 1,
        "settings": ("cpu=1",),
        "python": "",
        "args": ["--workers", "9"],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ui", "--port", "0"], "'--port': 0 is not in the range 1<=x<=65535"),
        (["logs", "mine", "--rank", "x"], "'--rank': 'x' is not a valid integer range"),
        (["results", "--format", "xml"], "'--format': 'xml' is not one of 'text', 'json'"),
        (["init", "--ranks", "0"], "'--ranks': 0 is not in the range x>=1"),
        (["prevew"], "No such command 'prevew'"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(words: list[str], said: str) -> None:
    outcome = CliRunner().invoke(slipway, words)
    assert outcome.exit_code == 2
    assert said in outcome.output


def test_an_installed_command_first_enters_its_venv(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def call(*_given: object) -> int:
        done.append("called")
        return 0

    monkeypatch.setattr("scripts.cli.calls.call", call)
    runner = CliRunner()
    assert (
        runner.invoke(slipway, ["up", "--help"], obj=lambda: done.append("entered")).exit_code == 0
    )
    assert done == []
    assert runner.invoke(slipway, ["up"], obj=lambda: done.append("entered")).exit_code == 0
    assert done == ["entered", "called"]


def test_a_shell_completes_the_stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("dev", "deep", "other"):
        (tmp_path / f"Pulumi.{name}.yaml").touch()
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    variables = {
        "_SLIPWAY_COMPLETE": "bash_complete",
        "COMP_WORDS": "slipway up --stack de",
        "COMP_CWORD": "3",
    }
    outcome = CliRunner().invoke(slipway, env=variables, prog_name="slipway")
    assert outcome.output.split() == ["plain,deep", "plain,dev"]
