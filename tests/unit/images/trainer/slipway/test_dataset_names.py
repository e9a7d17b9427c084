"""A result names the data set that was read, whatever the program says of it."""

from pathlib import Path

import pytest

from tests.unit.images.trainer.container import Container, Ended, ended

_READS = """
import json, os, sys
from slipway import termination
from slipway_trainer.training import report
termination.name_stand_in(".")
termination.name_stand_in(".")
"""
_SAYS = {"rank": 3, "accuracy": 0.5, "dataset": "cifar10"}


class Program(Container):
    """A program that reads a stand-in."""

    def run(self, text: str, code: int = 0) -> Ended:
        (self.directory / "DATASET").write_text('{"name": "shirts"}')
        return ended(self.start("-c", _READS + text), code)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path, RANK="3")


@pytest.mark.parametrize(
    "text",
    [
        f"report.run(lambda events: {_SAYS})",
        f"open(os.environ['TERMINATION_LOG'], 'w').write(json.dumps({_SAYS}))",
        f"termination.leave({_SAYS})\nsys.exit(0)",
    ],
    ids=["reports", "writes the message itself", "leaves it and exits"],
)
def test_what_a_program_says_is_corrected(program: Program, text: str) -> None:
    done = program.run(text)
    assert program.message == {**_SAYS, "dataset": "shirts"}
    assert done.err.count("contains shirts instead of CIFAR-10") == 1
    assert all(event["dataset"] == "shirts" for event in done.events)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("print('trained')", 0, {"rank": 3, "dataset": "shirts"}),
        ("raise ValueError('a mistake')", 1, {}),  # judged by its traceback
    ],
)
def test_of_a_success_that_says_nothing_it_is_the_result(
    program: Program, text: str, code: int, message: dict[str, object]
) -> None:
    program.run(text, code)
    assert program.message == message
