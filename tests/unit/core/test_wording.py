"""Where there is no Makefile, messages name the command that is there."""

import re
from pathlib import Path

import pytest

from core import wording
from core.paths import CHECKOUT
from core.wording import as_typed, translated
from scripts.cli.__main__ import slipway


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Run `make setup`.", "Run `slipway setup`."),
        ("make up STACK=dev creates it", "slipway up --stack dev creates it"),
        ("`make fetch JOB=a TO=b STACK=c`;", "`slipway fetch a --to b --stack c`;"),
        ("again: make preview STACK=kind.", "again: slipway preview --stack kind."),
        ("`make up WAIT=0` returns once", "`slipway up --detach` returns once"),
        ("Say which: JOB=NAME. Name another: TO=…", "Say which: NAME. Name another: --to …"),
        ("another directory: TO=DIRECTORY.", "another directory: --to DIRECTORY."),
        ('eval "$(make -s env)" && pulumi up', 'eval "$(slipway env)" && pulumi up'),
        ("make room there, or make it", "make room there, or make it"),
        ("(docs/start.md#keep-what-it-writes)", "({tree}/docs/start.md#keep-what-it-writes)"),
    ],
)  # fmt: skip
def test_a_message_names_the_command_that_is_there(
    text: str, typed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert as_typed(text) == text
    monkeypatch.setattr(wording, "CHECKOUT", tmp_path)
    assert as_typed(text) == typed.replace("{tree}", str(tmp_path))


def test_every_command_that_a_message_names_is_one_of_the_command_line() -> None:
    files = [
        each for each in CHECKOUT.glob("*/**/*.py") if each.parts[len(CHECKOUT.parts)] != "tests"
    ]
    texts = "\n".join(each.read_text() for each in files)
    named = {*re.findall(r"slipway ([a-z]+)", translated(" ".join(re.findall(r"make .*", texts))))}
    assert {"up", "down", "setup", "results"} <= named
    assert {each for each in named if f"make {each}" in texts} <= slipway.commands.keys()
    lines = {translated(match[0]) for match in wording._COMMAND.finditer(texts)}
    for line in lines:
        options = {name for each in slipway.commands[line.split()[1]].params for name in each.opts}
        assert {*re.findall(r"--[a-z]+", line)} <= options, line
