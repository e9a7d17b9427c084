"""The command line and the functions behind it belong together."""

import inspect
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


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        (
            "logs mine --rank 1 --follow=0 --stack other",
            {"job": "mine", "rank": 1, "follow": "0", "stack": "other"},
        ),
        # What follows `--args` is the program's own.
        (
            "run train.py --workers 1 --set cpu=1 --args --workers 9",
            {"script": "train.py", "workers": 1, "settings": ("cpu=1",), "python": "",
             "args": ["--workers", "9"]},
        ),
    ],
)  # fmt: skip
def test_what_is_given_arrives(
    line: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called(monkeypatch, *line.split())[2] == arguments


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
    monkeypatch.setattr("scripts.cli.calls.call", lambda *_: done.append("called"))
    for words, expected in ((["up", "--help"], []), (["up"], ["entered", "called"])):
        outcome = CliRunner().invoke(slipway, words, obj=lambda: done.append("entered"))
        assert (outcome.exit_code, done) == (0, expected)


def test_a_shell_completes_the_stacks(folder: Path) -> None:
    for name in ("dev", "deep", "other"):
        (folder / f"Pulumi.{name}.yaml").touch()
    words = {"COMP_WORDS": "slipway up --stack de", "COMP_CWORD": "3"}
    variables = {"_SLIPWAY_COMPLETE": "bash_complete", **words}
    outcome = CliRunner().invoke(slipway, env=variables, prog_name="slipway")
    assert outcome.output.split() == ["plain,deep", "plain,dev"]
