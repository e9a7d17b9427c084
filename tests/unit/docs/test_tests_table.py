"""tests/README.md names, for each thing that holds, the tests that show it: they are all there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
TEXT = (TESTS / "README.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and "::" in line]
HEADING = "| what holds | test |"
NAMED = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<test>\w+)`")


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS)
def test_every_test_that_a_row_names_is_there(row: str) -> None:
    named = NAMED.findall(row)
    assert len(named) == row.count("::"), row
    for file, test in named:
        assert test in named_in(file), f"{file} has no {test}"


def test_every_row_of_the_table_names_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and line != HEADING]
    assert len(rows) > 20
    assert rows == ROWS


@pytest.mark.parametrize(
    "file",
    sorted([*TESTS.glob("engine/test_run_*.py"), *TESTS.glob("runs/test_*.py")]),
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_every_test_of_a_run_is_in_the_table(file: Path) -> None:
    name = str(file.relative_to(TESTS))
    listed = {test for path, test in NAMED.findall(TEXT) if path == name}
    assert named_in(name) - listed == set()
